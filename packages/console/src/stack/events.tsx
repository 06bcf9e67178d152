// Events of a stack: what agents did, and what Kubernetes reported about its objects, newest first.
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import { useState } from 'react'
import { useCall } from '../api/use-call.ts'
import { formatClock, formatExact } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { StateText } from '../parts/icon.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Name, plainText } from '../parts/text.tsx'

const sources = [
  { id: 'agents', label: 'From agents' },
  { id: 'kubernetes', label: 'From Kubernetes' },
] as const

export function EventList({ stackId, units }: { stackId: string; units: readonly AgentStackStatus[] }) {
  const [source, setSource] = useState<'agents' | 'kubernetes'>('agents')
  return (
    <>
      <div className="filters">
        <Tabs options={sources} value={source} onChange={setSource} label="Source of events" />
      </div>
      {source === 'agents' ? <AgentEvents stackId={stackId} units={units} /> : <KubernetesEvents stackId={stackId} units={units} />}
    </>
  )
}

const dayMs = 24 * 60 * 60 * 1000

function AgentEvents({ stackId, units }: { stackId: string; units: readonly AgentStackStatus[] }) {
  // Rounded to the hour, so that the key of the read stays the same.
  const [since] = useState(() => new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000 - dayMs).toISOString())
  const events = useCall('listAgentEvents', { query: { stack_id: stackId, since, limit: 500 } }, { everyMs: 15_000 })
  const nameOf = new Map(units.map((unit) => [unit.agent_id, unit.agent_name]))
  return (
    <PanelBody query={events}>
      {(rows) =>
        rows.length === 0 ? (
          <Empty title="No event in the last 24 hours">Agents report here what they applied, what failed and what drifted.</Empty>
        ) : (
          <ul className="scroll" tabIndex={0}>
            {rows.toReversed().map((event) => (
              <li key={event.id} className="ev-row wrap">
                <span className="mono ink-3 f12" title={formatExact(event.created_at)}>
                  {formatClock(event.created_at)}
                </span>
                <StateText state={event.status === 'SUCCESS' ? 'current' : event.event_type === 'DRIFT' ? 'degraded' : 'failing'}>
                  {plainText(event.event_type.toLowerCase(), 40)}
                </StateText>
                <Name text={nameOf.get(event.agent_id) ?? 'removed agent'} className="mono f12" />
                <span className="ink-2">
                  {event.sequence_id === null ? '' : `${event.sequence_id}: `}
                  {plainText(event.message ?? event.error_code ?? '', 600)}
                </span>
              </li>
            ))}
          </ul>
        )
      }
    </PanelBody>
  )
}

function KubernetesEvents({ stackId, units }: { stackId: string; units: readonly AgentStackStatus[] }) {
  const events = useCall('listTelemetryEvents', { params: { id: stackId }, query: { limit: 200 } }, { everyMs: 5_000 })
  const nameOf = new Map(units.map((unit) => [unit.agent_id, unit.agent_name]))
  return (
    <PanelBody query={events}>
      {({ events: rows, retention }) =>
        rows.length === 0 ? (
          <Empty title="No Kubernetes event stored">
            Events are kept for {Math.round(retention.effective_retention_seconds / 3600)} hours.
          </Empty>
        ) : (
          <ul className="scroll" tabIndex={0}>
            {rows.map((event) => (
              <li key={event.id} className="ev-row wrap">
                <span className="mono ink-3 f12" title={formatExact(event.observed_at)}>
                  {formatClock(event.observed_at)}
                </span>
                <StateText state={event.event_type === 'Normal' ? 'current' : 'degraded'}>{plainText(event.reason, 40)}</StateText>
                <Name text={nameOf.get(event.agent_id) ?? 'removed agent'} className="mono f12" />
                <span className="ink-2">
                  <b className="b mono f12">{plainText(`${event.involved_object.kind}/${event.involved_object.name}`, 120)}</b>{' '}
                  {plainText(event.message, 600)}
                </span>
              </li>
            ))}
          </ul>
        )
      }
    </PanelBody>
  )
}
