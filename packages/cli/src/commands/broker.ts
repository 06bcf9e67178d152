// brokkr broker …: the commands that work on the broker's database directly. They take the broker's own settings.
import {
  createAdmin,
  createAgentKey,
  createGeneratorKey,
  type MadeKey,
  migrateDatabase,
  resealDatabase,
  rotateAdmin,
  rotateAgent,
  rotateGenerator,
} from '@brokkr/broker/commands.ts'
import { CliError, print, tell } from '../output.ts'

const brokenShownMax = 20

export async function migrateCommand(): Promise<void> {
  const { version, applied } = await migrateDatabase({ env: process.env })
  print(`the schema is at version ${version}; ${applied} migrations were run`)
}

export async function resealCommand(): Promise<void> {
  const { resealed, kept, broken, retired } = await resealDatabase({ env: process.env })
  print(`resealed ${resealed} rows; ${kept} were under the key already`)
  if (broken.length > 0) {
    throw new CliError(`${broken.length} rows open with no key of the ring; no key was retired`, {
      where: broken.slice(0, brokenShownMax).join(', '),
      next: 'add the key they were sealed with to broker.encryption_keys_previous and run this again',
    })
  }
  print(`retired ${retired} older keys: they can be taken out of broker.encryption_keys_previous`)
}

/** The key goes to standard output alone, so that it can be piped into a file. */
export async function rotateAdminCommand(options: { name?: string; useConfiguredHash?: boolean }): Promise<void> {
  const { name, pak } = await rotateAdmin({ env: process.env, ...options })
  if (pak === null) print(`admin key ${name} now has the hash of broker.pak_hash`)
  else {
    tell(`admin key ${name} was replaced; the old one is dead. The new one is shown once:`)
    print(pak)
  }
}

const env = process.env

export async function createAdminCommand(options: { name: string; readonly?: boolean; scope?: string }): Promise<void> {
  const { name, readonly } = options
  showKey(await createAdmin({ env, name, readonly, scope: options.scope?.split(',') }), 'admin key', 'was made')
}

export async function createGeneratorCommand(options: { name: string; description?: string }): Promise<void> {
  showKey(await createGeneratorKey({ env, ...options }), 'generator', 'was made')
}

export async function createAgentCommand(options: {
  name: string
  clusterName: string
  generator: string[]
  label: string[]
}): Promise<void> {
  const { name, clusterName, generator: generators, label: labels } = options
  showKey(await createAgentKey({ env, name, clusterName, generators, labels }), 'agent', 'was made')
}

export async function rotateGeneratorCommand(options: { name: string }): Promise<void> {
  showKey(await rotateGenerator({ env, ...options }), 'generator', 'has a new key; the old one is dead')
}

export async function rotateAgentCommand(options: { name: string; clusterName: string }): Promise<void> {
  showKey(await rotateAgent({ env, ...options }), 'agent', 'has a new key; the old one is dead')
}

function showKey({ id, name, pak }: MadeKey, what: string, became: string): void {
  tell(`${what} ${name} (${id}) ${became}. Its key is shown once:`)
  print(pak)
}
