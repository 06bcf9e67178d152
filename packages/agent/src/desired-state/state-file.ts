// Stores desired state, epoch, cursor and unsent events across restarts, in one file that is replaced atomically. Encrypted with a key
// derived from the PAK, because manifests contain secrets. An unreadable file is ignored.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { mkdir, open, readFile, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import { DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import { z } from 'zod'

const DigestEntry = z.object({ id: z.string(), checksum: z.string() }).nullable()
const Stack = z.object({
  stackId: StackId,
  stackName: z.string(),
  rev: z.int(),
  drift: z.enum(['heal', 'report', 'off']),
  line: DigestEntry,
  object: z
    .object({
      id: DeploymentObjectId,
      sequenceId: z.int(),
      isMarker: z.boolean(),
      checksum: z.string(),
      /** gzip, base64. */
      content: z.string(),
    })
    .nullable(),
})
const PendingRemoval = z.object({
  stackId: StackId,
  rev: z.int(),
  reason: z.enum(['untargeted', 'stack_deleted', 'absent']),
  decision: z.enum(['undecided', 'held', 'decided']),
  last: Stack.nullable(),
})
export const SavedState = z.object({
  version: z.literal(1),
  agentId: z.string(),
  epoch: z.string().nullable(),
  boot: z.string().nullable().default(null),
  cursor: z.string().nullable(),
  seen: z.string().nullable().default(null),
  wanted: z.array(Stack),
  leaving: z.array(PendingRemoval),
  events: z.array(NewAgentEvent),
})
export type SavedState = z.output<typeof SavedState>
export type SavedStack = z.output<typeof Stack>

const magic = Buffer.from('brokkr-agent-state-1\n')
const [saltBytes, ivBytes, tagBytes] = [16, 12, 16]

export async function readState(path: string, pak: string): Promise<SavedState | null> {
  try {
    const sealed = await readFile(path)
    return SavedState.parse(JSON.parse(unseal(sealed, pak).toString('utf8')))
  } catch {
    return null
  }
}

export async function writeState(path: string, pak: string, state: SavedState): Promise<void> {
  const sealed = seal(Buffer.from(JSON.stringify(state)), pak)
  const temporary = `${path}.${process.pid}.tmp`
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const file = await open(temporary, 'w', 0o600)
  try {
    await file.writeFile(sealed)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
}

function seal(plaintext: Buffer, pak: string): Buffer {
  const [salt, iv] = [randomBytes(saltBytes), randomBytes(ivBytes)]
  const cipher = createCipheriv('aes-256-gcm', deriveKey(pak, salt), iv)
  cipher.setAAD(magic)
  const body = Buffer.concat([cipher.update(plaintext), cipher.final()])
  return Buffer.concat([magic, salt, iv, cipher.getAuthTag(), body])
}

function unseal(sealed: Buffer, pak: string): Buffer {
  let at = magic.length
  const next = (bytes: number) => sealed.subarray(at, (at += bytes))
  if (!sealed.subarray(0, at).equals(magic)) throw new TypeError('not a state file')
  const [salt, iv, tag] = [next(saltBytes), next(ivBytes), next(tagBytes)]
  const decipher = createDecipheriv('aes-256-gcm', deriveKey(pak, salt), iv, { authTagLength: tagBytes })
  decipher.setAAD(magic)
  decipher.setAuthTag(tag)
  return Buffer.concat([decipher.update(sealed.subarray(at)), decipher.final()])
}

const deriveKey = (pak: string, salt: Buffer): Buffer => Buffer.from(hkdfSync('sha256', pak, salt, 'brokkr agent state', 32))
