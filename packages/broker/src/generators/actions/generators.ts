// Generators: create, update, delete, rotate the PAK.
import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Generator } from '@brokkr/contract/generators/generator.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { changedFields, requireDescription, requireName, requireUnchanged } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import type { Seal } from '../../seal.ts'
import { deleteStacks } from '../../stacks/actions/stacks.ts'
import * as stacks from '../../stacks/store/stacks.ts'
import * as stackTemplates from '../../templates/store/stack-templates.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as generators from '../store/generators.ts'
import * as registrations from '../store/registrations.ts'

// Creates a generator with its PAK. Only the response contains the clear text.

export interface NewGenerator {
  readonly name: string
  readonly description: string | null | undefined
  readonly actor: Actor
}

export async function createGenerator(
  deps: { sql: Sql; wakeFeed: () => void; pakForm?: PakForm },
  input: NewGenerator,
): Promise<{ generator: Generator; pak: string }> {
  const newPak = await generatePak(deps.pakForm)
  const row = {
    id: uuid7(),
    name: requireName(input.name, 'name'),
    description: requireDescription(input.description),
    pak_hash: newPak.hash,
    pak_short: newPak.short,
    is_system: false,
  }
  const generator = await deps.sql.begin(async (sql) => {
    const newGenerator = await generators.insert(sql, row)
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'generator.created',
      resource: { type: 'generator', id: newGenerator.id },
      details: { name: newGenerator.name },
    })
    return newGenerator
  })
  deps.wakeFeed()
  return { generator, pak: newPak.pak }
}

// Changes a generator. The generator itself may change name and description; only admins change is_active. Null and omitted fields stay
// unchanged; identifying fields are immutable.

type Optional<T> = T | null | undefined
export interface GeneratorChange {
  readonly generatorId: string
  readonly id: Optional<string>
  readonly name: Optional<string>
  readonly description: Optional<string>
  readonly is_active: Optional<boolean>
  readonly is_system: Optional<boolean>
  /** Throws if the generator changed after the caller read it. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly actor: Actor
}

export async function updateGenerator(deps: { sql: Sql; wakeFeed: () => void }, input: GeneratorChange): Promise<Generator> {
  const { generatorId: id, actor } = input
  const generator = await deps.sql.begin(async (sql) => {
    const before = await generators.lock(sql, { id })
    if (before === null) throw new ApiError('not_found', 'no such generator')
    input.precondition(before)
    requireUnchanged('id', input.id, before.id)
    requireUnchanged('is_system', input.is_system, before.is_system)
    const after = {
      name: input.name === null || input.name === undefined ? before.name : requireName(input.name, 'name'),
      description: requireDescription(input.description) ?? before.description,
      is_active: (actor.kind === 'admin' ? input.is_active : null) ?? before.is_active,
    }
    const fields = changedFields(before, after)
    if (fields.length === 0) return before
    await recordAuditEntry(sql, { actor, action: 'generator.updated', resource: { type: 'generator', id }, details: { fields } })
    return generators.update(sql, { id, ...after })
  })
  deps.wakeFeed()
  return generator
}

/** Deletes a generator: its PAK becomes invalid, its stacks are deleted with deletion markers, its templates are deleted and its
 * registrations end. */
export async function deleteGenerator(
  deps: { sql: Sql; seal: Seal; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  { generatorId: id, actor }: { generatorId: string; actor: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    // Blocks new stacks and registrations, whose transactions take a share lock on the generator.
    const generator = await generators.lockForDeletion(sql, { id })
    if (generator === null) throw new ApiError('generator_not_found', 'no such generator')
    if (generator.is_system) throw new ApiError('cannot_delete_system_generator', 'the system generator cannot be deleted')
    const stackIds = (await stacks.listLiveOfGenerator(sql, { generator_id: id })).map((stack) => stack.id)
    await registrations.removeAllOfGenerator(sql, { owner_id: id })
    await generators.markDeleted(sql, { id })
    const templates = await stackTemplates.markDeletedOfGenerator(sql, { owner_id: id })
    await recordAuditEntry(sql, {
      actor,
      action: 'generator.deleted',
      resource: { type: 'generator', id },
      details: { stacks: stackIds.length, templates },
    })
    await deleteStacks(sql, deps, { stackIds, actor })
  })
  deps.wakeFeed()
}

/** Replaces the PAK of a generator. The old one is invalid after the commit. The system generator never has a PAK. */
export async function rotateGeneratorPak(
  deps: { sql: Sql; wakeFeed: () => void; pakForm?: PakForm },
  { generatorId: id, actor }: { generatorId: string; actor: Actor },
): Promise<{ generator: Generator; pak: string }> {
  const newPak = await generatePak(deps.pakForm)
  const generator = await deps.sql.begin(async (sql) => {
    const before = await generators.lock(sql, { id })
    if (before === null) throw new ApiError('generator_not_found', 'no such generator')
    if (before.is_system) throw new ApiError('cannot_rotate_system_generator', 'the system generator has no PAK')
    await recordAuditEntry(sql, {
      actor,
      action: 'pak.rotated',
      resource: { type: 'generator', id },
      details: { short_token: newPak.short },
    })
    return generators.setPak(sql, { id, pak_hash: newPak.hash, pak_short: newPak.short })
  })
  deps.wakeFeed()
  return { generator, pak: newPak.pak }
}

/** Rejects references to generators that do not exist. */
export async function requireLiveGenerators(sql: Sql, ids: string[]): Promise<void> {
  const live = await generators.holdLive(sql, { ids })
  if (live.length < ids.length) throw new ApiError('invalid_generator_id', 'generator_ids names a generator that does not exist')
}
