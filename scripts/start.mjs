// npm start: sets the machine up, builds the programs as they ship and runs the whole product in the foreground; Ctrl-C stops all of it.
import { join } from 'node:path'
import { forwardSignals, runProgram, stopped } from './run-program.mjs'
import { root, setUp, workspaceEnv } from './setup.mjs'
import { createSteps, StepFailed, tail, tellFailure } from './steps.mjs'

const args = process.argv.slice(2)
forwardSignals()
try {
  const steps = createSteps({ plain: args.includes('--plain') })
  const node = await setUp(steps)
  const programs = await steps.run('programs', () => buildPrograms(node))
  // A signal that came while packages were installed ends the start here, not after everything was started.
  if (stopped() !== null) process.exit(130)
  const { code } = await runProgram(node, [join(root, 'packages', 'cli', 'src', 'main.ts'), 'up', '--foreground', ...args], {
    cwd: root,
    env: { ...workspaceEnv(node), BROKKR_PROGRAMS: programs },
    inherit: true,
  })
  process.exit(code)
} catch (error) {
  tellFailure(error)
  process.exit(1)
}

/** By the Node that was set up: the one that runs this script may be too old for the bundler. */
async function buildPrograms(node) {
  const result = await runProgram(node, [join(root, 'scripts', 'programs.mjs')], { cwd: root, env: workspaceEnv(node) })
  if (result.code === 0) return { value: tail(result.output, 1), detail: 'broker and agent as they ship' }
  throw new StepFailed({
    what: 'programs were not built',
    why: `the bundler ended with ${result.code}`,
    log: result.output,
    next: 'run `npm run check`: it names what does not compile',
  })
}
