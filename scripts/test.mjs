// npm test: set-up, formatter, linter, types, then every test against real servers. Writes reports/tests.json; its last line
// is `N passed, N failed`. `--quick` leaves out what needs more than PostgreSQL, `--peers` runs the comparisons with
// long-built programs, further words are test files or names for vitest.
import { join } from 'node:path'
import { runChecks } from './check.mjs'
import { prepareParts } from './parts.mjs'
import { forwardSignals, stopped } from './run-program.mjs'
import { root, setUp } from './setup.mjs'
import { createSteps, tellFailure } from './steps.mjs'
import { isQuick, listTests, testFiles } from './test-files.mjs'
import { runVitest } from './vitest.mjs'

/** How long building peers may take on a new machine before their comparison is left out of the run. */
const peersBudgetMs = Number(process.env.BROKKR_PEERS_BUDGET_SECONDS ?? 1500) * 1000

const flags = new Set(process.argv.slice(2).filter((arg) => arg.startsWith('--')))
const args = process.argv.slice(2).filter((arg) => !['--quick', '--peers', '--plain'].includes(arg))
const tier = flags.has('--quick') ? 'quick' : flags.has('--peers') ? 'peers' : 'all'
const lastLines = []
let counts = { passed: 0, failed: 0 }

forwardSignals()
try {
  const steps = createSteps({ plain: flags.has('--plain') })
  const node = await setUp(steps)
  const checks = tier === 'all' && args.length === 0 ? await runChecks(steps, node) : []
  const without = await prepare(steps, node)
  if (stopped() !== null) throw new Error(`stopped by ${stopped()}`)
  const ran = await runVitest(node, {
    tier,
    without,
    args,
    report: tier === 'all' && args.length === 0 ? join(root, 'reports', 'tests.json') : undefined,
  })
  counts = { passed: ran.passed, failed: ran.failed + checks.length }
  if (ran.skipped > 0) lastLines.push(`${ran.skipped} tests did not run`)
} catch (error) {
  tellFailure(error)
  counts.failed += 1
}
for (const line of lastLines) process.stdout.write(`${line}\n`)
process.stdout.write(`${counts.passed} passed, ${counts.failed} failed\n`)
process.exitCode = counts.failed === 0 && stopped() === null ? 0 : 1

/** Lists the tests that this run omits: on request, or (peers only) because a build exceeded the time budget. */
async function prepare(steps, node) {
  const without = process.env.BROKKR_TEST_WITHOUT ?? ''
  const { left } = testFiles(root, { tier, without })
  for (const { file, parts } of left) lastLines.push(`left out by BROKKR_TEST_WITHOUT=${without}: ${file} (needs ${parts.join(', ')})`)
  const absent = new Set(without.split(',').filter(Boolean))
  const inTier = listTests(root).filter((test) => (tier === 'peers') === test.peers && (tier !== 'quick' || isQuick(test)))
  const requiredParts = [...new Set(inTier.flatMap((test) => test.parts))].filter((part) => !absent.has(part))
  const missing = await prepareParts(steps, node, requiredParts, tier === 'peers' ? { limitMs: peersBudgetMs } : {})
  if (tier !== 'peers') return without
  for (const { file, parts } of inTier) {
    const gone = parts.filter((part) => missing.includes(part))
    if (gone.length > 0) lastLines.push(`comparison did not run: ${file} (${gone.join(', ')} not ready within ${peersBudgetMs / 1000} s)`)
  }
  return [without, ...missing].filter(Boolean).join(',')
}
