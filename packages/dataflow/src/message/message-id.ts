// Id of a message in log lines: its own id if the source has one, else its position in the source.
import type { Metadata, MetadataValue } from '@brokkr/contract/dataflow/language/json.ts'

/** Empty if the metadata has neither. */
export function buildMessageId(metadata: Metadata): string {
  const own = textAt(metadata, 'message_id') || textAt(metadata, 'id')
  if (own !== '') return own
  const offset = textAt(metadata, 'kafka_offset') || textAt(metadata, 'offset')
  const partition = textAt(metadata, 'kafka_partition') || textAt(metadata, 'partition')
  return offset === '' || partition === '' ? offset : `${partition}/${offset}`
}

const lengthMax = 200

function textAt(metadata: Metadata, key: string): string {
  const value: MetadataValue | undefined = Object.hasOwn(metadata, key) ? metadata[key] : undefined
  if (value === undefined || value === null) return ''
  return (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, lengthMax)
}
