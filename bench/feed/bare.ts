// The bare feed as a program beside the broker.
import { join } from 'node:path'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { channel } from './parts.ts'

export interface Measured {
  readonly program: ProgramProcess
  readonly port: number
}

export async function startBare(databaseUrl: string, encryptionKey: string): Promise<Measured> {
  const port = await freePort()
  const args = [databaseUrl, String(port), encryptionKey, channel]
  const program = await startProgram({
    name: 'bare',
    main: join(import.meta.dirname, '../bare/feed.ts'),
    args,
    env: {},
  })
  await waitFor('the bare feed is ready', () => program.text().includes('ready'))
  return { program, port }
}
