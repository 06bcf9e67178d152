// The lists of the fleet page. Each reads its own data and fails alone.
import type { ListedFleetAgent } from '@brokkr/contract/agents/fleet.ts'
import { Link } from '@tanstack/react-router'
import { type CallResult, useCall } from '../api/use-call.ts'
import { describeAudit } from '../audit/describe-audit.ts'
import { Age, formatClock } from '../parts/age.tsx'
import { Glyph, Icon } from '../parts/icon.tsx'
import { Panel } from '../parts/panel.tsx'
import { clusterState, describeCluster, describeStack, stackState } from '../parts/states.ts'
import { Name } from '../parts/text.tsx'

const shownMax = 9

export function WrongNow({ fleet }: { fleet: readonly ListedFleetAgent[] }) {
  const failing = useCall('listStacks', { query: { include: 'status', health: 'failing', limit: shownMax } })
  const degraded = useCall('listStacks', { query: { include: 'status', health: 'degraded', limit: shownMax } })
  const silent = fleet.filter((agent) => ['stale', 'unknown'].includes(clusterState(agent)))
  const stacks = [...(failing.data ?? []), ...(degraded.data ?? [])]
  const total = stacks.length + silent.length
  return (
    <Panel
      title="Wrong now"
      count={total === 0 ? undefined : total}
      query={failing}
      tools={
        <Link to="/stacks" search={{ health: 'failing' }} className="link push">
          Open all <Icon name="arrow" size="s" />
        </Link>
      }
    >
      {() =>
        total === 0 ? (
          <p className="quiet">
            <Glyph state="current" /> Nothing is failing, degraded or silent.
          </p>
        ) : (
          <ul className="list">
            {stacks.slice(0, shownMax).map((stack) => (
              <li key={stack.id}>
                <Glyph state={stackState(stack.status)} />
                <Link to="/stacks/$id" params={{ id: stack.id }} className="mono b nm cut">
                  <Name text={stack.name} />
                </Link>
                <span className="grow cut ink-2">{describeStack(stack.status)}</span>
                <Age at={stack.updated_at} />
              </li>
            ))}
            {silent.slice(0, Math.max(0, shownMax - stacks.length)).map((agent) => (
              <li key={agent.agent_id}>
                <Glyph state={clusterState(agent)} />
                <Link to="/clusters/$id" params={{ id: agent.agent_id }} className="mono b nm cut">
                  <Name text={agent.name} />
                </Link>
                <span className="grow cut ink-2">{describeCluster(agent)}</span>
                {agent.last_seen_at === null || agent.last_seen_at === undefined ? null : <Age at={agent.last_seen_at} />}
              </li>
            ))}
          </ul>
        )
      }
    </Panel>
  )
}

export function Moving({ fleet }: { fleet: CallResult<'listFleet'> }) {
  return (
    <Panel title="Moving" query={fleet}>
      {(agents) => {
        const moving = agents.filter((agent) => agent.pending_object_count > 0 && clusterState(agent) !== 'stale')
        if (moving.length === 0) return <p className="quiet">No change is on its way.</p>
        return (
          <ul className="list">
            {moving.slice(0, 4).map((agent) => (
              <li key={agent.agent_id}>
                <Glyph state="progressing" />
                <Link to="/clusters/$id" params={{ id: agent.agent_id }} className="mono b nm cut">
                  <Name text={agent.name} />
                </Link>
                <span className="grow cut ink-2">
                  {agent.pending_object_count} {agent.pending_object_count === 1 ? 'object' : 'objects'} pending
                </span>
              </li>
            ))}
          </ul>
        )
      }}
    </Panel>
  )
}

export function WaitsForPerson({ overview }: { overview: CallResult<'getOverview'> }) {
  const promotions = useCall('listPromotions', { query: { phase: 'AwaitingApproval', limit: 4 } }, { everyMs: 20_000 })
  const held = overview.data?.decisions.prune_held ?? 0
  const holds = overview.data?.holds ?? 0
  return (
    <Panel
      title="Waits for a person"
      count={promotions.data === undefined ? undefined : promotions.data.length + held + holds || undefined}
      query={overview}
    >
      {() =>
        held + holds === 0 && (promotions.data ?? []).length === 0 ? (
          <p className="quiet">Nothing waits for a decision.</p>
        ) : (
          <ul className="list two">
            {(promotions.data ?? []).map(({ metadata, spec }) => (
              <li key={metadata.uid}>
                <Icon name="promo" />
                <div className="grow col">
                  <Link to="/promotions" search={{ card: `${metadata.namespace}/${metadata.name}` }} className="cut">
                    Approve <span className="mono">{String(spec['revision'])}</span> → {String(spec['environment'])}
                  </Link>
                  <span className="f12 ink-3 cut">{metadata.name}</span>
                </div>
                <Age at={metadata.creationTimestamp} />
              </li>
            ))}
            {holds === 0 ? null : (
              <li>
                <Icon name="pause" />
                <div className="grow col">
                  <Link to="/stacks" search={{ held: 'true' }}>
                    Release {holds} held {holds === 1 ? 'stack' : 'stacks'}
                  </Link>
                  <span className="f12 ink-3">later versions wait behind a hold</span>
                </div>
              </li>
            )}
            {held === 0 ? null : (
              <li>
                <Icon name="pause" />
                <div className="grow col">
                  <span>
                    {held} {held === 1 ? 'removal is' : 'removals are'} held by the prune guard
                  </span>
                  <span className="f12 ink-3">open the cluster to approve</span>
                </div>
              </li>
            )}
          </ul>
        )
      }
    </Panel>
  )
}

export function Changes() {
  const audit = useCall('listAuditLogs', { query: { limit: 40 } }, { everyMs: 15_000 })
  return (
    <Panel title="Changes" query={audit}>
      {({ logs }) => {
        const shown = logs.filter(({ action }) => !/^(auth|session)\./.test(action)).slice(0, 7)
        if (shown.length === 0) return <p className="quiet">No change was made yet.</p>
        return (
          <ul className="list two">
            {shown.map((entry) => (
              <li key={entry.id}>
                <span className="mono ink-3 time">{formatClock(entry.timestamp)}</span>
                <div className="grow col">
                  <span className="cut">{describeAudit(entry)}</span>
                  <span className="f12 ink-3 cut">{entry.actor_name ?? entry.actor_type}</span>
                </div>
              </li>
            ))}
          </ul>
        )
      }}
    </Panel>
  )
}
