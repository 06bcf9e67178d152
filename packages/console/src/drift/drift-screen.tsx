// Drift: which fields other managers changed, grouped by field and manager over clusters, and which stacks differ now.
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useCall } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { Icon, StateText } from '../parts/icon.tsx'
import { Panel } from '../parts/panel.tsx'
import { Name, plainText } from '../parts/text.tsx'
import { groupDrift } from './group-drift.ts'

const weekMs = 7 * 24 * 60 * 60 * 1000
const hourMs = 3_600_000

export function DriftScreen() {
  // Rounded to the hour, so that the key of the read stays the same.
  const [since] = useState(() => new Date(Math.floor(Date.now() / hourMs) * hourMs - weekMs).toISOString())
  const events = useCall('listAgentEvents', { query: { event_type: 'DRIFT', since, limit: 1000 } }, { everyMs: 15_000 })
  const drifted = useCall('listStacks', { query: { include: 'status', drifted: true, limit: 100 } })
  const fleet = useCall('listFleet', { query: { include: 'agent', limit: 1000 } })
  const nameOf = useMemo(() => new Map((fleet.data ?? []).map(({ agent_id, name }) => [agent_id as string, name])), [fleet.data])
  return (
    <>
      <div className="head">
        <h1>Drift</h1>
        <span className="ink-3 head-note">Fields that others changed in the last seven days</span>
      </div>
      <div className="cols with-panel">
        <Panel title="By field and manager" query={events}>
          {(rows) => {
            const groups = groupDrift(rows)
            if (groups.length === 0)
              return (
                <Empty title="No drift in 7 days">
                  Agents compare every object with its desired state and report who changed which field.
                </Empty>
              )
            return (
              <div className="table-wrap" tabIndex={0}>
                <table className="table">
                  <thead>
                    <tr>
                      <th>Field</th>
                      <th>Object</th>
                      <th>Manager</th>
                      <th className="num">Clusters</th>
                      <th className="num">Times</th>
                      <th className="num">First</th>
                      <th className="num">Last</th>
                    </tr>
                  </thead>
                  <tbody>
                    {groups.slice(0, 200).map((group) => (
                      <tr key={group.key}>
                        <td className="mono">{plainText(group.field, 120)}</td>
                        <td>
                          <Name text={group.object} />
                        </td>
                        <td>
                          <span className="row">
                            <Icon name="person" size="m" />
                            <Name text={group.manager} />
                          </span>
                        </td>
                        <td className="num" title={group.agentIds.map((id) => nameOf.get(id) ?? id).join(', ')}>
                          {group.agentIds.length}
                        </td>
                        <td className="num">{group.events}</td>
                        <td className="num">
                          <Age at={group.firstAt} />
                        </td>
                        <td className="num">
                          <Age at={group.lastAt} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )
          }}
        </Panel>
        <Panel title="Stacks that differ now" count={drifted.data?.length} query={drifted}>
          {(rows) =>
            rows.length === 0 ? (
              <p className="quiet">Every reported stack equals its desired state.</p>
            ) : (
              <ul className="list">
                {rows.map((stack) => (
                  <li key={stack.id}>
                    <Link to="/stacks/$id" params={{ id: stack.id }} search={{ tab: 'events' }} className="grow cut b">
                      <Name text={stack.name} />
                    </Link>
                    <StateText state="degraded">
                      {stack.status?.drifted} of {stack.status?.agents_total}
                    </StateText>
                    <span className="ink-3 f12">{stack.drift}</span>
                  </li>
                ))}
              </ul>
            )
          }
        </Panel>
      </div>
    </>
  )
}
