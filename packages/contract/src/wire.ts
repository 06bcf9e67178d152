// Schemas that several resources share: ids, times, labels. They use JSON Schema formats instead of zod patterns, so that error
// messages stay readable.
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

/** RFC 3339 in UTC; the broker writes six fraction digits. */
export const Timestamp = z.string().meta({ format: 'date-time' })

export const Label = z.string()
export const AnnotationKey = z.string()
export const AnnotationValue = z.string()

/** Filters by labels and annotations (`key=value`); each may be repeated and all must match. */
export const labelFilterQuery = { label: z.array(z.string()).max(64).optional(), annotation: z.array(z.string()).max(64).optional() }

/** A page of a list: how many at most, and where the page before it ended. */
export const pageQuery = { limit: z.int().min(1).optional(), cursor: z.string().max(2048).optional() }

/** Includes deleted rows, for callers that may see them. */
export const deletedQuery = { include_deleted: z.boolean().default(false) }

/** Fields of every stored resource; deleted_at is null while the row is not deleted. */
export const rowTimes = { created_at: Timestamp, updated_at: Timestamp, deleted_at: Timestamp.nullable() }

export const byId = <T extends z.ZodType>(id: T) => z.object({ id })
