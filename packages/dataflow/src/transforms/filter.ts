// filter: keeps a message or drops it.
import { compileCondition, usesPayload } from '@brokkr/contract/dataflow/language/compile-condition.ts'
import { getPayload } from '../message/message.ts'
import { dropped, type Transform } from './transform.ts'

export const filter: Transform<'filter'> = {
  type: 'filter',
  dropReason: 'filter',
  takesNonJson: true,
  build({ condition }, { patterns }) {
    const holds = compileCondition(condition, patterns)
    // A condition on metadata does not parse the payload.
    if (!usesPayload(condition.root)) return (message) => (holds(undefined, message.metadata) ? [message] : dropped)
    return (message) => (holds(getPayload(message), message.metadata) ? [message] : dropped)
  },
}
