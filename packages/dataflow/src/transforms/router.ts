// router: the first true condition selects the sink of a message. A later router may select another one.
import { compileCondition, usesPayload } from '@brokkr/contract/dataflow/language/compile-condition.ts'
import { getPayload, withRoute } from '../message/message.ts'
import type { Transform } from './transform.ts'

export const router: Transform<'router'> = {
  type: 'router',
  takesNonJson: true,
  build({ routes }, { patterns }) {
    const compiled = routes.map(({ id, condition }) => ({ id, text: condition.text, holds: compileCondition(condition, patterns) }))
    const needsPayload = routes.some(({ condition }) => usesPayload(condition.root))
    return (message) => {
      const payload = needsPayload ? getPayload(message) : undefined
      const route = compiled.find(({ holds }) => holds(payload, message.metadata))
      if (route !== undefined) return [withRoute(message, { ...message.metadata, routed_condition: route.text }, route.id)]
      if (message.route === undefined) return [message]
      const { routed_condition: _earlier, ...metadata } = message.metadata
      return [withRoute(message, metadata, undefined)]
    }
  },
}
