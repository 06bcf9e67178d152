// The broker of a local installation as a supervised process: loopback, its settings by environment, keys by file.
import { request } from 'node:http'
import { freePort } from '@brokkr/local/free-ports.ts'
import { CliError } from '../output.ts'
import type { Keys } from './keys.ts'
import { programOf } from './program-of.ts'
import type { Done } from './progress.ts'
import type { UpContext } from './up.ts'

export interface BrokerAt {
  readonly url: string
  readonly adminPak: string
  readonly keysDir: string
}

export async function startBrokerProgram(
  { flags, supervisor }: UpContext,
  given: { databaseUrl: string; keys: Keys },
): Promise<Done<BrokerAt>> {
  const port = Number(flags.port) === 0 ? await freePort() : Number(flags.port)
  const url = `http://127.0.0.1:${port}`
  if (await answers(url))
    throw new CliError(`port ${port} is in use`, {
      next: `end what listens there, or take another port: brokkr up --port ${port + 1}`,
      exitCode: 1,
    })
  await supervisor.start({
    name: 'broker',
    ...programOf('broker'),
    env: {
      DATABASE_URL: given.databaseUrl,
      BROKKR__SERVER__PORT: String(port),
      BROKKR__BROKER__PAK_HASH: given.keys.adminPakHash,
      BROKKR__BROKER__ENCRYPTION_KEY_FILE: given.keys.encryptionKeyFile,
      BROKKR__LOG__FORMAT: 'json',
    },
    ports: { http: port },
    ready: `${url}/readyz`,
    readyLimitMs: 60_000,
  })
  return { detail: `${url} · feed live`, value: { url, adminPak: given.keys.adminPak, keysDir: given.keys.dir } }
}

/** Something else on our port would look like a broker that never becomes ready. */
function answers(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = request(url, { timeout: 1000 }, (response) => {
      response.resume()
      resolve(true)
    })
    probe.on('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'ECONNREFUSED'))
    probe.on('timeout', () => {
      probe.destroy()
      resolve(true)
    })
    probe.end()
  })
}
