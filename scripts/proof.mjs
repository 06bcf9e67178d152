// npm run proof [name …]: the same tests with large sizes and many seeds (BROKKR_TEST_TIER=proof), file by file, resumable:
// files that passed on this commit are not run again. Writes reports/proof.json with commit, machine and outcome of each.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { prepareParts } from './parts.mjs'
import { forwardSignals, runProgram, stopped } from './run-program.mjs'
import { root, setUp } from './setup.mjs'
import { createSteps, tellFailure } from './steps.mjs'
import { listTests } from './test-files.mjs'
import { runVitest } from './vitest.mjs'

const reportFile = join(root, 'reports', 'proof.json')
const selected = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))

forwardSignals()
try {
  const steps = createSteps({ plain: true })
  const node = await setUp(steps)
  const commit = (await runProgram('git', ['rev-parse', 'HEAD'], { cwd: root })).output.trim()
  const report = readReport(commit)
  const tests = listTests(root).filter(
    (test) => !test.peers && isSized(test.file) && (selected.length === 0 || selected.some((word) => test.file.includes(word))),
  )
  await prepareParts(steps, node, [...new Set(tests.flatMap((test) => test.parts))])
  for (const { file } of tests) {
    if (stopped() !== null) break
    if (report.files[file]?.failed === 0) continue
    const started = Date.now()
    const counts = await runVitest(node, { tier: 'proof', args: [file] })
    report.files[file] = { ...counts, seconds: Math.round((Date.now() - started) / 1000), seed: process.env.BROKKR_SEED ?? null }
    writeReport(report)
  }
  const failed = Object.values(report.files).reduce((sum, entry) => sum + entry.failed, 0)
  const passedCount = Object.values(report.files).reduce((sum, entry) => sum + entry.passed, 0)
  process.stdout.write(`report in reports/proof.json\n${passedCount} passed, ${failed} failed\n`)
  process.exitCode = failed === 0 && stopped() === null ? 0 : 1
} catch (error) {
  tellFailure(error)
  process.exitCode = 1
}

/** Repeats only tests with a size that depends on the tier. */
function isSized(file) {
  return readFileSync(join(root, file), 'utf8').includes('@brokkr/testing/sizes.ts')
}

function readReport(commit) {
  const machine = { cpus: cpus().length, model: cpus()[0]?.model ?? 'unknown', memory_gib: Math.round(totalmem() / 1024 ** 3) }
  const earlier = existsSync(reportFile) ? JSON.parse(readFileSync(reportFile, 'utf8')) : null
  return earlier?.commit === commit ? earlier : { commit, machine, files: {} }
}

function writeReport(report) {
  mkdirSync(join(root, 'reports'), { recursive: true })
  writeFileSync(reportFile, `${JSON.stringify(report, null, 2)}\n`)
}
