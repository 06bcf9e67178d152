// Creates a version of a template. Versions of one name are numbered under a lock, so that two writers never take the same number.
import { createHash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { StackTemplate } from '@brokkr/contract/templates/template.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as generators from '../../generators/store/generators.ts'
import { requireDescription, requireName } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import type { Seal } from '../../seal.ts'
import type { TemplateWork } from '../rules/template-job.ts'
import * as stackTemplates from '../store/stack-templates.ts'
import { toTemplateContext } from '../store/stack-templates.ts'
import * as templateLabels from '../store/template-labels.ts'

export interface TemplateContent {
  readonly description: string | null | undefined
  readonly content: string
  readonly schema: string
  readonly actor: Actor
}
type Deps = { sql: Sql; seal: Seal; templates: TemplateWork; wakeFeed: () => void }

/** `generatorId` null: a system template. */
export async function createTemplate(
  deps: Deps,
  input: TemplateContent & { readonly generatorId: string | null; readonly name: string },
): Promise<StackTemplate> {
  const name = requireName(input.name, 'name')
  const description = requireDescription(input.description)
  await deps.templates.check(input.content, input.schema)
  const template = await deps.sql.begin(async (sql) => {
    if (input.generatorId !== null && (await generators.holdLive(sql, { ids: [input.generatorId] })).length === 0)
      throw new ApiError('generator_not_found', 'no such generator')
    const row = await insertVersion(sql, deps.seal, { ...input, name, description })
    const details = { name, version: row.version }
    await recordAuditEntry(sql, { actor: input.actor, action: 'template.created', resource: { type: 'template', id: row.id }, details })
    return row
  })
  deps.wakeFeed()
  return toTemplate(template, input.content)
}

/** The next version, with the labels and annotations of the version that it was made from. */
export async function updateTemplate(
  deps: Deps,
  input: TemplateContent & { readonly templateId: string; readonly precondition: (row: { readonly updated_at: string }) => void },
): Promise<StackTemplate> {
  const sentDescription = requireDescription(input.description)
  await deps.templates.check(input.content, input.schema)
  const template = await deps.sql.begin(async (sql) => {
    await holdOwner(sql, input.templateId)
    const from = await requireLiveTemplate(sql, input.templateId)
    input.precondition(from)
    const { generator_id: generatorId, name } = from
    const row = await insertVersion(sql, deps.seal, { ...input, generatorId, name, description: sentDescription ?? from.description })
    await templateLabels.copyLabels(sql, { from_id: from.id, to_id: row.id })
    await templateLabels.copyAnnotations(sql, { from_id: from.id, to_id: row.id })
    const details = { name, version: row.version, from_id: from.id, from_version: from.version }
    await recordAuditEntry(sql, { actor: input.actor, action: 'template.updated', resource: { type: 'template', id: row.id }, details })
    return row
  })
  deps.wakeFeed()
  return toTemplate(template, input.content)
}

/** Locks the generator before the template, in the order in which the deletion of a generator locks them. */
async function holdOwner(sql: Sql, templateId: string): Promise<void> {
  const owner = await stackTemplates.ownerOf(sql, { id: templateId })
  if (owner === null || owner.generator_id === null) return
  if ((await generators.holdLive(sql, { ids: [owner.generator_id] })).length === 0)
    throw new ApiError('template_not_found', 'no such template')
}

/** Deletes one version; its labels and annotations go with it. */
export async function deleteTemplate(
  deps: { sql: Sql; wakeFeed: () => void },
  { templateId, actor }: { templateId: string; actor: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    const { id, name, version } = await requireLiveTemplate(sql, templateId)
    await templateLabels.removeAllLabels(sql, { template_id: id })
    await templateLabels.removeAllAnnotations(sql, { template_id: id })
    await stackTemplates.markDeleted(sql, { id })
    await recordAuditEntry(sql, { actor, action: 'template.deleted', resource: { type: 'template', id }, details: { name, version } })
  })
  deps.wakeFeed()
}

/** Locks it, so that a version is not labeled or copied while it is deleted. */
export async function requireLiveTemplate(sql: Sql, id: string): Promise<stackTemplates.TemplateRow> {
  const row = await stackTemplates.lock(sql, { id })
  if (row === null) throw new ApiError('template_not_found', 'no such template')
  return row
}

interface Version {
  readonly generatorId: string | null
  readonly name: string
  readonly description: string | null
  readonly content: string
  readonly schema: string
}

async function insertVersion(sql: Sql, seal: Seal, { generatorId, name, description, content, schema }: Version) {
  const [id, owner_id] = [uuid7(), generatorId ?? stackTemplates.systemOwner]
  await stackTemplates.lockName(sql, { owner_id, name })
  return stackTemplates.insertNextVersion(sql, {
    id,
    generator_id: generatorId,
    owner_id,
    name,
    description,
    template_sealed: seal.seal(toTemplateContext(id), content),
    template_bytes: Buffer.byteLength(content),
    parameters_schema: schema,
    checksum: createHash('sha256').update(content).digest('hex'),
  })
}

/** The row as the API shows it, with its source. */
export function toTemplate(row: stackTemplates.TemplateRow, content: string): StackTemplate {
  const { template_bytes: _bytes, ...fields } = row
  return { ...fields, template_content: content } as StackTemplate
}
