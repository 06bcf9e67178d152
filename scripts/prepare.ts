// Prepares what tests and `npm start` take from the cache: `node scripts/prepare.ts kubernetes kafka`. Says how far it is,
// one line per change; fails with the message that says what to do.

import { spawnSync } from 'node:child_process'
import { findJava } from '@brokkr/local/assets/java.ts'
import { ensureKubeAssets } from '@brokkr/local/assets/kube-assets.ts'
import { findChromium } from '@brokkr/testing/servers/browser.ts'
import { clickhouseVersion, ensureClickhouse } from '@brokkr/testing/servers/clickhouse-server.ts'
import { ensureGitea, giteaVersion } from '@brokkr/testing/servers/gitea-program.ts'
import { ensureHelm, helmVersion } from '@brokkr/testing/servers/helm-program.ts'
import { ensureKafka, kafkaVersion } from '@brokkr/testing/servers/kafka-server.ts'
import { ensureNessie, nessieVersion } from '@brokkr/testing/servers/nessie-server.ts'
import { ensurePyiceberg, pyicebergVersion } from '@brokkr/testing/servers/pyiceberg.ts'
import { ensureVersitygw, versitygwVersion } from '@brokkr/testing/servers/s3-server.ts'
import { ensureSchemaRegistry, schemaRegistryVersion } from '@brokkr/testing/servers/schema-registry-server.ts'
import { ensureSchemathesis, schemathesisVersion } from '@brokkr/testing/servers/schemathesis.ts'
import { ensureTrino, trinoVersion } from '@brokkr/testing/servers/trino-server.ts'
import { buildConsole } from './build-console.mjs'

const requestedParts = new Set(process.argv.slice(2))
const say = (line: string) => process.stdout.write(`${line}\n`)
const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort())

try {
  if (requestedParts.has('kubernetes') || requestedParts.has('kubectl')) {
    const assets = await ensureKubeAssets({
      env: process.env,
      signal: stopping.signal,
      parts: requestedParts.has('kubectl') ? ['kubectl'] : [],
      onProgress: ({ part, step, detail }) => say(`${part} ${step} ${detail}`),
    })
    say(`Kubernetes ${assets.version} ready`)
  }
  if (requestedParts.has('kafka')) {
    const java = findJava({ majorMin: 17, env: process.env })
    await ensureKafka({ signal: stopping.signal, onProgress: say })
    say(`Kafka ${kafkaVersion} ready, for Java ${java.major}`)
  }
  if (requestedParts.has('registry')) {
    const java = findJava({ majorMin: 21, env: process.env })
    await ensureSchemaRegistry({ signal: stopping.signal, onProgress: say })
    say(`schema registry ${schemaRegistryVersion} ready, for Java ${java.major}`)
  }
  if (requestedParts.has('gitea')) {
    await ensureGitea({ signal: stopping.signal, onProgress: say })
    say(`Gitea ${giteaVersion} ready`)
  }
  if (requestedParts.has('helm')) {
    await ensureHelm({ signal: stopping.signal, onProgress: say })
    say(`Helm ${helmVersion} ready`)
  }
  if (requestedParts.has('clickhouse')) {
    await ensureClickhouse({ signal: stopping.signal, onProgress: say })
    say(`ClickHouse ${clickhouseVersion} ready`)
  }
  if (requestedParts.has('trino')) {
    await ensureTrino({ signal: stopping.signal, onProgress: say })
    say(`Trino ${trinoVersion} ready`)
  }
  if (requestedParts.has('nessie')) {
    await ensureNessie({ signal: stopping.signal, onProgress: say })
    say(`Nessie ${nessieVersion} ready`)
  }
  if (requestedParts.has('s3')) {
    await ensureVersitygw({ signal: stopping.signal, onProgress: say })
    say(`versitygw ${versitygwVersion} ready`)
  }
  if (requestedParts.has('pyiceberg')) {
    await ensurePyiceberg({ signal: stopping.signal })
    say(`pyiceberg ${pyicebergVersion} ready`)
  }
  if (requestedParts.has('schemathesis')) {
    await ensureSchemathesis({ signal: stopping.signal })
    say(`schemathesis ${schemathesisVersion} ready`)
  }
  if (requestedParts.has('browser')) {
    ensureBrowser()
    await buildConsole()
    say(`browser ready: ${findChromium()}`)
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}

/** Installs the distribution's Chromium where that is possible; elsewhere findChromium says what to do. */
function ensureBrowser(): void {
  try {
    findChromium()
  } catch (error) {
    if (process.getuid?.() !== 0) throw error
    say('installing Chromium by apt-get')
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    const run = (args: string[]) => spawnSync('apt-get', args, { env, stdio: 'ignore', timeout: 600_000 })
    const packages = ['install', '-y', '--no-install-recommends', 'chromium', 'fonts-dejavu-core']
    // Package lists may be missing or old; they are read again only if the first try fails.
    if (run(packages).status !== 0) {
      run(['update'])
      run(packages)
    }
  }
}
