// brokkr broker …: commands that work on the broker's database directly, with the broker's settings.
import {
  type CreatedPak,
  createAdmin,
  createAdminLoginLink,
  createAgentKey,
  createGeneratorKey,
  migrateDatabase,
  resealDatabase,
  rotateAdmin,
  rotateAgent,
  rotateGenerator,
} from '@brokkr/broker/commands.ts'
import { CliError, print, printError } from '../../output.ts'

const brokenShownMax = 20

export async function migrateCommand(): Promise<void> {
  const { version, applied } = await migrateDatabase({ env: process.env })
  print(`the schema is at version ${version}; ${applied} migrations were run`)
}

export async function resealCommand(): Promise<void> {
  const { resealed, kept, broken, retired } = await resealDatabase({ env: process.env })
  print(`resealed ${resealed} rows; ${kept} already used the current key`)
  if (broken.length > 0) {
    throw new CliError(`${broken.length} rows cannot be decrypted with any configured key; no key was retired`, {
      where: broken.slice(0, brokenShownMax).join(', '),
      next: 'add the key that encrypted them to broker.encryption_keys_previous and run this again',
    })
  }
  print(`retired ${retired} older keys: remove them from broker.encryption_keys_previous`)
}

/** Prints only the PAK to standard output, so that it can be piped into a file. */
export async function rotateAdminCommand(options: { name?: string; useConfiguredHash?: boolean }): Promise<void> {
  const { name, pak } = await rotateAdmin({ env: process.env, ...options })
  if (pak === null) print(`admin PAK ${name} now has the hash of broker.pak_hash`)
  else {
    printError(`admin PAK ${name} was replaced; the old PAK is invalid. The new PAK is shown once:`)
    print(pak)
  }
}

const env = process.env

export async function createAdminCommand(options: { name: string; readonly?: boolean; scope?: string }): Promise<void> {
  const { name, readonly } = options
  printPak(await createAdmin({ env, name, readonly, scope: options.scope?.split(',') }), 'admin', 'was created')
}

export async function createGeneratorCommand(options: { name: string; description?: string }): Promise<void> {
  printPak(await createGeneratorKey({ env, ...options }), 'generator', 'was created')
}

export async function createAgentCommand(options: {
  name: string
  clusterName: string
  generator: string[]
  label: string[]
}): Promise<void> {
  const { name, clusterName, generator: generators, label: labels } = options
  printPak(await createAgentKey({ env, name, clusterName, generators, labels }), 'agent', 'was created')
}

export async function rotateGeneratorCommand(options: { name: string }): Promise<void> {
  printPak(await rotateGenerator({ env, ...options }), 'generator', 'has a new PAK; the old PAK is invalid')
}

export async function rotateAgentCommand(options: { name: string; clusterName: string }): Promise<void> {
  printPak(await rotateAgent({ env, ...options }), 'agent', 'has a new PAK; the old PAK is invalid')
}

/** Prints only the link to standard output, so that it can be piped into a browser. */
export async function createLoginLinkCommand(options: { name?: string; readonly?: boolean; url?: string }): Promise<void> {
  const { url, expires_at, name } = await createAdminLoginLink({ env, ...options })
  printError(`sign-in link with the rights of admin PAK ${name}; valid once, until ${expires_at}:`)
  print(url)
}

function printPak({ id, name, pak }: CreatedPak, kind: string, change: string): void {
  printError(`${kind} ${name} (${id}) ${change}. Its PAK is shown once:`)
  print(pak)
}
