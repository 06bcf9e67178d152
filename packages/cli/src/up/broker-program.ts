// The broker of a local installation as a supervised process on loopback, configured by environment variables and PAK files.
import { request } from 'node:http'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { CliError } from '../output.ts'
import type { Paks } from './paks.ts'
import type { PipelinesAt } from './pipelines-program.ts'
import { findPortOwner } from './port-owner.ts'
import type { StepResult } from './progress.ts'
import { findStartCommand } from './start-command.ts'
import type { UpContext } from './up.ts'

export interface LocalBroker {
  readonly url: string
  readonly adminPak: string
  readonly keysDir: string
}

export async function startBrokerProgram(
  { flags, supervisor }: UpContext,
  given: { databaseUrl: string; keys: Paks; pipelines: PipelinesAt | null },
): Promise<StepResult<LocalBroker>> {
  const port = Number(flags.port) === 0 ? await freePort() : Number(flags.port)
  const url = `http://127.0.0.1:${port}`
  if (await isServing(url)) throw portInUse(port)
  const program = findStartCommand('broker')
  await supervisor.start({
    name: 'broker',
    ...program,
    env: {
      ...program.env,
      DATABASE_URL: given.databaseUrl,
      BROKKR__SERVER__PORT: String(port),
      BROKKR__BROKER__PAK_HASH: given.keys.adminPakHash,
      BROKKR__BROKER__ENCRYPTION_KEY_FILE: given.keys.encryptionKeyFile,
      BROKKR__LOG__FORMAT: 'json',
      // The inbox page of the demo receives webhooks on this machine; nothing wider is allowed.
      BROKKR__BROKER__WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
      ...(given.pipelines === null
        ? {}
        : { BROKKR__BROKER__PIPELINES_URL: given.pipelines.url, BROKKR__BROKER__PIPELINES_KEY_FILE: given.pipelines.keyFile }),
    },
    ports: { http: port },
    ready: `${url}/readyz`,
    readyLimitMs: 60_000,
  })
  return { detail: `${url} · feed live`, value: { url, adminPak: given.keys.adminPak, keysDir: given.keys.dir } }
}

function portInUse(port: number): CliError {
  const owner = findPortOwner(port)
  return new CliError(`port ${port} is in use`, {
    where: owner === null ? 'by a program of another user' : `by process ${owner.pid}: ${owner.command}`,
    next: `stop that program, or use another port: brokkr up --port ${port + 1}`,
    exitCode: 1,
  })
}

/** Fails early if another program uses the port; otherwise the broker would seem never to become ready. */
function isServing(url: string): Promise<boolean> {
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
