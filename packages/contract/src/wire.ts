// Small schemas that every noun shares: ids, times, labels. JSON Schema formats instead of zod's own patterns, so that
// the error texts made from them stay readable.
import { z } from 'zod'

const uuid = () => z.string().meta({ format: 'uuid' })
export const AgentId = uuid().brand<'AgentId'>()
export const GeneratorId = uuid().brand<'GeneratorId'>()
export const StackId = uuid().brand<'StackId'>()
export const DeploymentObjectId = uuid().brand<'DeploymentObjectId'>()
export const Uuid = uuid()
export type AgentId = z.output<typeof AgentId>
export type GeneratorId = z.output<typeof GeneratorId>
export type StackId = z.output<typeof StackId>
export type DeploymentObjectId = z.output<typeof DeploymentObjectId>

/** RFC 3339 in UTC; what we write always has six fraction digits. */
export const Timestamp = z.string().meta({ format: 'date-time' })

export const Label = z.string()
export const AnnotationKey = z.string()
export const AnnotationValue = z.string()

/** Filters by what a thing carries: each may be repeated, all must hold; an annotation is written `key=value`. */
export const markQuery = { label: z.array(z.string()).max(64).optional(), annotation: z.array(z.string()).max(64).optional() }

/** A page of a list: how many at most, and where the page before it ended. */
export const pageQuery = { limit: z.int().min(1).optional(), cursor: z.string().max(2048).optional() }

/** Shows what was deleted too, to whoever may see it. */
export const deletedQuery = { include_deleted: z.boolean().default(false) }

/** Everything that has identity and history carries these; deleted_at is present as null while the row lives. */
export const rowTimes = { created_at: Timestamp, updated_at: Timestamp, deleted_at: Timestamp.nullable() }

export const byId = <T extends z.ZodType>(id: T) => z.object({ id })
