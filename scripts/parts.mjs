// Prepares the parts a run needs (scripts/prepare.ts) as a step with progress, so that a first build of many minutes
// happens before the tests and not inside their time limits.
import { join } from 'node:path'
import { runProgram } from './run-program.mjs'
import { root, workspaceEnv } from './setup.mjs'
import { tail } from './steps.mjs'

/** Parts that come from the cache and may have to be built; the others are packages or start in seconds. */
const prepared = new Set([
  'kubernetes',
  'kubectl',
  'kafka',
  'registry',
  'clickhouse',
  'trino',
  'nessie',
  's3',
  'pyiceberg',
  'schemathesis',
  'gitea',
  'helm',
  'browser',
])

/** @returns {Promise<string[]>} the parts that could not be had; the tests that need them say why */
export async function prepareParts(steps, node, wanted, { limitMs } = {}) {
  const missing = []
  for (const part of wanted.filter((name) => prepared.has(name))) {
    await steps.run(part, async (say) => {
      const result = await runProgram(node, [join(root, 'scripts', 'prepare.ts'), part], {
        cwd: root,
        env: workspaceEnv(node),
        onLine: say,
        limitMs,
      })
      if (result.code === 0) return { detail: tail(result.output, 1) }
      missing.push(part)
      return { mark: '✖', detail: tail(result.output, 6) }
    })
  }
  return missing
}
