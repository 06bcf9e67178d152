// NOTIFY channel of a schema, so that only brokers of one schema wake each other. Channel names are limited to 63 bytes, as schema names
// are; a long schema name is hashed.
import { hash } from 'node:crypto'

const [prefix, bytesMax] = ['brokkr_feed_', 63]

export const toNotifyChannel = (schema: string): string =>
  prefix.length + schema.length <= bytesMax ? `${prefix}${schema}` : `${prefix}${hash('sha256', schema).slice(0, 32)}`
