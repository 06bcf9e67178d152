// Prepares what tests and `npm start` take from the cache: `node scripts/prepare.ts kubernetes kafka`. Says how far it is,
// one line per change; fails with the message that says what to do.
import { ensureKubeAssets } from '@brokkr/local/assets.ts'
import { findJava } from '@brokkr/local/java.ts'
import { ensureKafka, kafkaVersion } from '@brokkr/testing/kafka-server.ts'
import { ensureSchemaRegistry, schemaRegistryVersion } from '@brokkr/testing/schema-registry-server.ts'

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
  if (wanted.has('kafka')) {
    const java = findJava({ majorMin: 17, env: process.env })
    await ensureKafka({ signal: stopping.signal, onProgress: say })
    say(`Kafka ${kafkaVersion} ready, for Java ${java.major}`)
  }
  if (wanted.has('registry')) {
    const java = findJava({ majorMin: 21, env: process.env })
    await ensureSchemaRegistry({ signal: stopping.signal, onProgress: say })
    say(`schema registry ${schemaRegistryVersion} ready, for Java ${java.major}`)
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}
