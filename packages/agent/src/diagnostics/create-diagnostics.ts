// Composition root of diagnostics: finds the stack of a deployment object and its members.
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { OperationsConfig } from '../config-operations.ts'
import type { OperationsDeps } from '../start-operations.ts'
import { diagnosticsLoop } from './diagnostics-loop.ts'

export function createDiagnostics({ kube, clock, log, agentId, broker, reconcile, state }: OperationsDeps, agent: OperationsConfig): Loop {
  return diagnosticsLoop({
    kube,
    clock,
    log,
    agentId,
    get policy() {
      return reconcile.settings.policy
    },
    subject: async (objectId, signal) => {
      const stack = [...state.desired.stacks.values()].find(({ object }) => object?.id === objectId)
      if (stack === undefined) return null
      const parent = await reconcile.parents.read(stack.stackId, signal)
      return { stackId: stack.stackId, members: parent.set.members }
    },
    client: broker.client,
    everyMs: agent.diagnostics_interval * 1000,
  })
}
