// Secrets of a local installation, generated once: the admin PAK, the key that encrypts manifests, and the key with which the broker
// signs requests to the pipelines controller. Only their owner can read the files.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePak, hashPak } from '@brokkr/contract/auth/pak.ts'
import { CliError } from '../output.ts'

export interface Paks {
  readonly dir: string
  readonly adminPakFile: string
  readonly adminPak: string
  readonly adminPakHash: string
  readonly encryptionKeyFile: string
  readonly pipelinesKeyFile: string
}

export async function ensurePaks(dir: string): Promise<Paks> {
  const keysDir = join(dir, 'keys')
  await mkdir(keysDir, { recursive: true, mode: 0o700 })
  const adminPakFile = join(keysDir, 'admin.pak')
  const encryptionKeyFile = join(keysDir, 'encryption.key')
  const adminPak = await readOrGenerate(adminPakFile, async () => (await generatePak()).pak)
  await readOrGenerate(encryptionKeyFile, async () => randomBytes(32).toString('hex'))
  const pipelinesKeyFile = join(keysDir, 'pipelines.key')
  await readOrGenerate(pipelinesKeyFile, async () => randomBytes(32).toString('hex'))
  const adminPakHash = await hashPak(adminPak)
  if (adminPakHash === null)
    throw new CliError('the admin PAK file contains no valid PAK', { where: adminPakFile, next: 'brokkr down --purge, then brokkr up' })
  return { dir: keysDir, adminPakFile, adminPak, adminPakHash, encryptionKeyFile, pipelinesKeyFile }
}

/** Content of a secret file; generated if missing, never written through a link. */
export async function readOrGenerate(path: string, make: () => Promise<string>): Promise<string> {
  const found = await readFile(path, 'utf8').catch(() => null)
  if (found !== null && found.trim() !== '') return found.trim()
  const text = await make()
  await writeSecretFile(path, text)
  return text
}

/** Replaces the content; never through a link. */
export async function writeSecretFile(path: string, text: string): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW, 0o600)
  try {
    await file.writeFile(`${text}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
}
