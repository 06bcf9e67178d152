// filter: keeps a message or drops it.
import { compileCondition, usesPayload } from '@brokkr/contract/dataflow/compile-condition.ts'
import { payloadOf } from '../message.ts'
import { dropped, type Transform } from '../transform.ts'

export const filter: Transform<'filter'> = {
  type: 'filter',
  dropReason: 'filter',
  takesNonJson: true,
  build({ condition }, { patterns }) {
    const holds = compileCondition(condition, patterns)
    // A condition on metadata alone leaves the payload unread.
    if (!usesPayload(condition.root)) return (message) => (holds(undefined, message.metadata) ? [message] : dropped)
    return (message) => (holds(payloadOf(message), message.metadata) ? [message] : dropped)
  },
}
