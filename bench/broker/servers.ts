// Those who are measured, as processes: our broker from its bundle with shipped defaults, and the bare one on the same database.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { generatePak } from '@brokkr/contract/auth/pak.ts'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { logLine, type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { bundle } from '../bundle.ts'

export type Server = ProgramProcess & { readonly port: number; readonly readyMs: number }

export interface Ours {
  readonly adminPak: string
  readonly encryptionKey: string
  start(databaseUrl: string, env?: Record<string, string>): Promise<Server>
}

export async function prepareOurs(): Promise<Ours> {
  const { main } = await bundle()
  const { pak, hash } = await generatePak()
  const encryptionKey = randomBytes(32).toString('hex')
  return {
    adminPak: pak,
    encryptionKey,
    start: async (databaseUrl, env = {}) => {
      const port = await freePort()
      const startedMs = performance.now()
      const program = await startProgram({
        name: 'broker',
        main,
        env: {
          DATABASE_URL: databaseUrl,
          BROKKR__SERVER__PORT: String(port),
          BROKKR__BROKER__PAK_HASH: hash,
          BROKKR__BROKER__ENCRYPTION_KEY: encryptionKey,
          ...env,
        },
      })
      const ready = async () => (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null))?.status === 200
      await waitFor('the broker is ready', ready, { everyMs: 5 })
      const readyMs = performance.now() - startedMs
      await logLine(program, 'broker ready')
      return Object.assign(program, { port, readyMs })
    },
  }
}

export async function startBare(databaseUrl: string): Promise<Server> {
  const port = await freePort()
  const main = join(import.meta.dirname, '../bare/broker.ts')
  const program = await startProgram({ name: 'bare', main, args: [databaseUrl, String(port)], env: {} })
  await waitFor('the bare server is ready', () => program.text().includes('ready'))
  return Object.assign(program, { port, readyMs: 0 })
}
