// Runs vitest for a tier and reads its result. A runner that fails without a failed test (a broken setup) counts as one failure.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runProgram } from './run-program.mjs'
import { root, workspaceEnv } from './setup.mjs'

/** @returns {Promise<{ passed: number, failed: number, skipped: number }>} */
export async function runVitest(node, { tier, without = '', args = [], report }) {
  const dir = mkdtempSync(join(tmpdir(), 'brokkr-test-'))
  const countsFile = join(dir, 'counts.json')
  const env = { ...workspaceEnv(node), BROKKR_TEST_TIER: tier, BROKKR_TEST_WITHOUT: without, BROKKR_COUNTS_FILE: countsFile }
  mkdirSync(join(root, 'reports'), { recursive: true })
  if (report) rmSync(report, { force: true })
  const reporters = [
    '--reporter=default',
    `--reporter=${join(root, 'scripts', 'counts-reporter.mjs')}`,
    ...(report ? ['--reporter=json', `--outputFile.json=${report}`] : []),
  ]
  const { code } = await runProgram(node, [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...reporters, ...args], {
    cwd: root,
    env,
    inherit: true,
  })
  const counts = existsSync(countsFile) ? JSON.parse(readFileSync(countsFile, 'utf8')) : { passed: 0, failed: 0, skipped: 0 }
  rmSync(dir, { recursive: true, force: true })
  return code !== 0 && counts.failed === 0 ? { ...counts, failed: 1 } : counts
}
