// npm run check: formatter, linter and types, side by side. Exported for `npm test`, which runs the same three.
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { forwardSignals, runProgram } from './run-program.mjs'
import { root, setUp, workspaceEnv } from './setup.mjs'
import { createSteps, StepFailed, tellFailure } from './steps.mjs'

const checks = [
  { name: 'format', args: ['@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.'], next: 'npm run fix' },
  { name: 'types', args: ['typescript/bin/tsc', '-b'], next: 'correct the first error: later ones may follow from it' },
  { name: 'lint', args: ['oxlint/bin/oxlint', '--deny-warnings'], next: 'npm run fix, then correct the rest' },
]

/** Runs all of them, so that one run shows everything; returns the failures. */
export async function runChecks(steps, node) {
  const failures = []
  for (const { name, args, next } of checks) {
    const [program, ...rest] = args
    await steps
      .run(name, async () => {
        const result = await runProgram(node, [join(root, 'node_modules', program), ...rest], { cwd: root, env: workspaceEnv(node) })
        if (result.code !== 0)
          throw new StepFailed({ what: `${name} failed`, why: `it ended with ${result.code}`, log: result.output, next })
        return { detail: 'clean' }
      })
      .catch((error) => {
        failures.push(error)
        tellFailure(error)
      })
  }
  return failures
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  forwardSignals()
  const steps = createSteps({ plain: process.argv.includes('--plain') })
  try {
    const node = await setUp(steps)
    process.exit((await runChecks(steps, node)).length === 0 ? 0 : 1)
  } catch (error) {
    tellFailure(error)
    process.exit(1)
  }
}
