// Opens the sealed texts of stored telemetry.
import type { AgentK8sEvent, AgentPodLog } from '@brokkr/contract/telemetry/telemetry.ts'
import type { EncryptionContext, Seal } from '../seal.ts'
import type { K8sEventRow } from './store/k8s-events.ts'
import type { PodLogRow } from './store/pod-logs.ts'

export const toMessageContext = (id: string): EncryptionContext => ({ table: 'agent_k8s_events', column: 'message_sealed', id })
export const toLineContext = (id: string): EncryptionContext => ({ table: 'agent_pod_logs', column: 'line_sealed', id })

export function openEvent(seal: Seal, { message_sealed, bytes: _bytes, ...event }: K8sEventRow): AgentK8sEvent {
  return { ...event, message: seal.open(toMessageContext(event.id), message_sealed) }
}

export function openLine(seal: Seal, { line_sealed, bytes: _bytes, ...line }: PodLogRow): AgentPodLog {
  return { ...line, line: seal.open(toLineContext(line.id), line_sealed) }
}
