// router: the first condition that holds decides to which sink a message goes. A later router decides anew.
import { compileCondition, usesPayload } from '@brokkr/contract/dataflow/compile-condition.ts'
import { payloadOf, withRoute } from '../message.ts'
import type { Transform } from '../transform.ts'

export const router: Transform<'router'> = {
  type: 'router',
  takesNonJson: true,
  build({ routes }, { patterns }) {
    const compiled = routes.map(({ id, condition }) => ({ id, text: condition.text, holds: compileCondition(condition, patterns) }))
    const needsPayload = routes.some(({ condition }) => usesPayload(condition.root))
    return (message) => {
      const payload = needsPayload ? payloadOf(message) : undefined
      const route = compiled.find(({ holds }) => holds(payload, message.metadata))
      if (route !== undefined) return [withRoute(message, { ...message.metadata, routed_condition: route.text }, route.id)]
      if (message.route === undefined) return [message]
      const { routed_condition: _earlier, ...metadata } = message.metadata
      return [withRoute(message, metadata, undefined)]
    }
  },
}
