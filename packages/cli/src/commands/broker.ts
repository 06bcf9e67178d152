// brokkr broker …: the commands that work on the broker's database directly. They take the broker's own settings.
import { migrateDatabase, resealDatabase } from '@brokkr/broker/commands.ts'
import { CliError, print } from '../output.ts'

const brokenShownMax = 20

export async function migrateCommand(): Promise<void> {
  await migrateDatabase({ env: process.env })
  print('the schema is that of this release')
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
