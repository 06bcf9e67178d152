// Provenance of deployment objects: the template, its version and the sealed parameters they were rendered from.
import { count, maybe, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

export interface NewRendering {
  readonly id: string
  readonly deployment_object_id: string
  readonly template_id: string
  readonly template_version: number
  readonly parameters_sealed: Buffer
  readonly rendered_at: string
}
export const insert = count(
  'rendered_deployment_objects.insert',
  (p: Slots<NewRendering>) => `
  insert into rendered_deployment_objects (id, deployment_object_id, template_id, template_version, parameters_sealed, rendered_at)
  values (${p.id}, ${p.deployment_object_id}, ${p.template_id}, ${p.template_version}, ${p.parameters_sealed}, ${p.rendered_at}::timestamptz)`,
)

const Row = z.object({
  id: z.string(),
  template_id: z.string(),
  template_version: z.int(),
  parameters_sealed: z.instanceof(Buffer),
  rendered_at: z.string(),
  rollback_of: z.string().nullable(),
  created_by_kind: z.string(),
  created_by_id: z.string().nullable(),
})
/** The rendering of a deployment object, or of the one that it copies through at most 1,000 rollbacks; null if none was rendered. */
export const readProvenance = maybe(
  'rendered_deployment_objects.readProvenance',
  Row,
  (p: Slots<{ deployment_object_id: string }>) => `
  with recursive copies (id, rollback_of, depth) as (
    select id, rollback_of, 0 from deployment_objects where id = ${p.deployment_object_id}::uuid
    union all
    select o.id, o.rollback_of, c.depth + 1 from copies c join deployment_objects o on o.id = c.rollback_of where c.depth < 1000)
  select r.id, r.template_id, r.template_version, r.parameters_sealed, r.rendered_at, o.rollback_of, o.created_by_kind, o.created_by_id
  from copies c join rendered_deployment_objects r on r.deployment_object_id = c.id
  cross join deployment_objects o where o.id = ${p.deployment_object_id}::uuid order by c.depth limit 1`,
)

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })
export const sealedSample = rows(
  'rendered_deployment_objects.sealedSample',
  Sealed,
  () => `select id, parameters_sealed as sealed from rendered_deployment_objects order by id desc limit 1`,
)
/** Parameters are at most 256 KiB. */
export const sealedPage = rows(
  'rendered_deployment_objects.sealedPage',
  Sealed,
  (p: Slots<{ after: string; since: string | null }>) => `
  select id, parameters_sealed as sealed from rendered_deployment_objects
  where id > ${p.after}::uuid and (${p.since}::timestamptz is null or created_at >= ${p.since}) order by id limit 30`,
)
export const putSealed = count(
  'rendered_deployment_objects.putSealed',
  (p: Slots<{ id: string; was: Buffer; sealed: Buffer }>) => `
  update rendered_deployment_objects set parameters_sealed = ${p.sealed}::bytea where id = ${p.id}::uuid and parameters_sealed = ${p.was}::bytea`,
)
