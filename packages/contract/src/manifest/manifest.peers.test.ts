// Proves that the answers recorded in the corpus of manifests are kubectl's own. What manifest.test.ts holds us to is thereby kubectl.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureKubeAssets } from '@brokkr/local/assets/kube-assets.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { canonicalText, parseExactly, readCorpus } from './test-parts/manifest-corpus.ts'

// kubectl may have to be built first, which takes minutes on a small machine.
const buildLimitMs = 1_800_000
let folder: string
let kubectl: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'brokkr-kubectl-'))
  const assets = await ensureKubeAssets({ stage: 'core', parts: ['kubectl'] })
  kubectl = assets.kubectl ?? ''
}, buildLimitMs)

afterAll(() => rm(folder, { recursive: true, force: true }))

/** An empty patch, applied locally: kubectl reads the file as `apply` and `create` do, prints what it read, and needs no cluster. */
async function readByKubectl(name: string, file: string): Promise<string[] | null> {
  const args = ['patch', '--local', '--type=merge', '--patch={}', '--output=json', `--filename=${file}`]
  try {
    const printed = await runTool({
      name: 'kubectl',
      command: kubectl,
      args,
      cwd: folder,
      env: { HOME: folder },
      logFile: join(folder, `${name}.log`),
      timeoutMs: 60_000,
    })
    return splitObjects(printed).map((text) => canonicalText(parseExactly(text)))
  } catch (error) {
    return whyNothing((error as Error).message, error)
  }
}

/** Each object starts with a brace in the first column. */
const splitObjects = (printed: string): string[] => printed.split(/(?<=^\})\n(?=\{)/m)

function whyNothing(message: string, cause: unknown): string[] | null {
  if (message.includes('no objects passed to')) return []
  if (message.startsWith('kubectl ended with 1:\n')) return null
  throw new Error(`kubectl could not be asked: ${message}`, { cause })
}

test.each(readCorpus())('kubectl reads $name as recorded', async ({ name, file, kubectl: recorded }) => {
  expect(await readByKubectl(name, file)).toEqual(recorded)
})
