// Keys of a local installation, made once: the admin key and the key that seals manifests. Files only their owner can read.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hashPak, makePak } from '@brokkr/contract/pak.ts'
import { CliError } from '../output.ts'

export interface Keys {
  readonly dir: string
  readonly adminPakFile: string
  readonly adminPak: string
  readonly adminPakHash: string
  readonly encryptionKeyFile: string
}

export async function ensureKeys(dir: string): Promise<Keys> {
  const keysDir = join(dir, 'keys')
  await mkdir(keysDir, { recursive: true, mode: 0o700 })
  const adminPakFile = join(keysDir, 'admin.pak')
  const encryptionKeyFile = join(keysDir, 'encryption.key')
  const adminPak = await readOrMake(adminPakFile, async () => (await makePak()).pak)
  await readOrMake(encryptionKeyFile, async () => randomBytes(32).toString('hex'))
  const adminPakHash = await hashPak(adminPak)
  if (adminPakHash === null)
    throw new CliError('the admin key is not a key', { where: adminPakFile, next: 'brokkr down --purge, then brokkr up' })
  return { dir: keysDir, adminPakFile, adminPak, adminPakHash, encryptionKeyFile }
}

/** The text of a key file; made if it is not there, never through a link. */
export async function readOrMake(path: string, make: () => Promise<string>): Promise<string> {
  const found = await readFile(path, 'utf8').catch(() => null)
  if (found !== null && found.trim() !== '') return found.trim()
  const text = await make()
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW, 0o600)
  try {
    await file.writeFile(`${text}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  return text
}
