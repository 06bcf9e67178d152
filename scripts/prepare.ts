// Prepares what tests and `npm start` take from the cache: `node scripts/prepare.ts kubernetes kubectl`. Says how far it is,
// one line per change; fails with the message that says what to do.
import { ensureKubeAssets } from '@brokkr/local/assets.ts'

const wanted = new Set(process.argv.slice(2))
const say = (line: string) => process.stdout.write(`${line}\n`)
const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort())

try {
  if (wanted.has('kubernetes') || wanted.has('kubectl')) {
    const assets = await ensureKubeAssets({
      env: process.env,
      signal: stopping.signal,
      parts: wanted.has('kubectl') ? ['kubectl'] : [],
      onProgress: ({ part, step, detail }) => say(`${part} ${step} ${detail}`),
    })
    say(`Kubernetes ${assets.version} ready`)
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}
