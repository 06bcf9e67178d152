// npm run proof:mutants [id …]: applies each mutants/<id>.patch, which breaks one guarantee, to a copy of the committed tree and
// expects the test with [id] in its title to fail. A mutant that survives shows a test that proves nothing.
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { forwardSignals, runProgram, stopped } from './run-program.mjs'
import { root, setUp, workspaceEnv } from './setup.mjs'
import { createSteps, tellFailure } from './steps.mjs'
import { listTests } from './test-files.mjs'

const changedLinesMax = 10

forwardSignals()
try {
  const steps = createSteps({ plain: true })
  const node = await setUp(steps)
  const selectedIds = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
  const ids = readdirSync(join(root, 'mutants')).flatMap((name) => (name.endsWith('.patch') ? [name.slice(0, -6)] : []))
  const outcome = { passed: 0, failed: 0 }
  for (const id of ids.filter((name) => selectedIds.length === 0 || selectedIds.includes(name))) {
    if (stopped() !== null) break
    const problem = await steps.run(id, async () => {
      const value = await tryMutant(node, id)
      return { mark: value === null ? '✔' : '✖', detail: value ?? 'its test failed, as it must', value }
    })
    outcome[problem === null ? 'passed' : 'failed'] += 1
  }
  process.stdout.write(`${outcome.passed} passed, ${outcome.failed} failed\n`)
  process.exitCode = outcome.failed === 0 ? 0 : 1
} catch (error) {
  tellFailure(error)
  process.exitCode = 1
}

/** null if the test failed as expected; else the problem. A mutant is named <id> or <id>-<word>. */
async function tryMutant(node, id) {
  const patch = join(root, 'mutants', `${id}.patch`)
  const changed = readFileSync(patch, 'utf8')
    .split('\n')
    .filter((line) => /^[+-](?![+-]{2} )/.test(line)).length
  if (changed > changedLinesMax) return `changes ${changed} lines, at most ${changedLinesMax} are allowed`
  const scenario = id.split('-')[0]
  const files = listTests(root).filter((test) => readFileSync(join(root, test.file), 'utf8').includes(`[${scenario}]`))
  if (files.length === 0) return `no test has [${scenario}] in its title`
  const copy = await copyTree()
  try {
    const applied = await runProgram('git', ['apply', '--whitespace=nowarn', patch], { cwd: copy })
    if (applied.code !== 0) return `the patch does not apply: ${applied.output.trim().split('\n')[0]}`
    const names = ['-t', `\\[${scenario}\\]`]
    const run = await runProgram(
      node,
      [join(copy, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...names, ...files.map((test) => test.file)],
      { cwd: copy, env: workspaceEnv(node) },
    )
    if (run.code === 0) return 'SURVIVED: the test passes although the guarantee is broken'
    return /Tests .*failed/.test(run.output) ? null : 'no test ran to its end: the mutant breaks the build, not the guarantee'
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** The working tree without its folders of built things; packages are the installed ones, workspace links point into the copy. */
async function copyTree() {
  const copy = mkdtempSync(join(tmpdir(), 'brokkr-mutant-'))
  const listed = await runProgram('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root })
  for (const file of listed.output.split('\0')) if (file !== '' && existsSync(join(root, file))) cpSync(join(root, file), join(copy, file))
  symlinkModules(copy)
  // Tests that look at the tree ask git what belongs to it.
  await runProgram('git', ['init', '-q'], { cwd: copy })
  return copy
}

function symlinkModules(copy) {
  cpSync(join(root, 'node_modules', '@brokkr'), join(copy, 'node_modules', '@brokkr'), { recursive: true, verbatimSymlinks: true })
  for (const name of readdirSync(join(root, 'node_modules')))
    if (name !== '@brokkr') symlinkSync(join(root, 'node_modules', name), join(copy, 'node_modules', name))
}
