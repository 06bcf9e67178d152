// The NOTIFY channel of a schema: brokers of one schema wake each other and nobody else. PostgreSQL takes 63 bytes; a schema may have as
// many of its own.
import { hash } from 'node:crypto'

const [prefix, bytesMax] = ['brokkr_feed_', 63]

export const feedChannel = (schema: string): string =>
  prefix.length + schema.length <= bytesMax ? `${prefix}${schema}` : `${prefix}${hash('sha256', schema).slice(0, 32)}`
