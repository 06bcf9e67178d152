// The fleet: every cluster, as it last reported. The first screen answers what is wrong, what moves, and who is waited for.
import type { ListedFleetAgent, Overview } from '@brokkr/contract/agents/fleet.ts'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { type CallResult, useCall } from '../api/use-call.ts'
import { formatSpan, useNow } from '../parts/age.tsx'
import { HeatStrip } from '../parts/heat-strip.tsx'
import { Icon, type State, StateText } from '../parts/icon.tsx'
import { formatCount } from '../parts/meter.tsx'
import { DataAge, PanelBody } from '../parts/panel.tsx'
import { clusterState, describeCluster } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.tsx'
import { Name } from '../parts/text.tsx'
import { FirstCluster } from './first-cluster.tsx'
import { type Grouping, groupClusters } from './group-clusters.ts'
import { Changes, Moving, WaitsForPerson, WrongNow } from './lists.tsx'

const route = getRouteApi('/')

export function FleetScreen() {
  const fleet = useCall('listFleet', { query: { include: 'agent', limit: 1000 } }, { everyMs: 15_000 })
  const overview = useCall('getOverview', {}, { everyMs: 10_000 })
  // The wizard stays while the first cluster joins, so that one sees it turn green.
  const [isFirstRun, setFirstRun] = useState(false)
  const isEmpty = fleet.data?.length === 0
  useEffect(() => {
    if (isEmpty) setFirstRun(true)
  }, [isEmpty])
  if (isEmpty || isFirstRun) return <FirstCluster hasCluster={!isEmpty} openFleet={() => setFirstRun(false)} />
  return (
    <>
      <div className="head">
        <h1>Fleet</h1>
        <span className="ink-3 head-note">Every cluster, as it last reported</span>
        <div className="acts">
          <Link to="/access" search={{ tab: 'invites' }} className="btn go">
            <Icon name="plus" size="m" />
            Invite cluster
          </Link>
        </div>
      </div>
      <section className="card kpi" aria-label="Numbers">
        <PanelBody query={overview}>{(data) => <Numbers overview={data} fleet={fleet.data ?? []} />}</PanelBody>
      </section>
      <Clusters fleet={fleet} />
      <div className="grid three">
        <WrongNow fleet={fleet.data ?? []} />
        <div className="col stack-gap">
          <Moving fleet={fleet} />
          <WaitsForPerson overview={overview} />
        </div>
        <Changes />
      </div>
    </>
  )
}

function Numbers({ overview, fleet }: { overview: Overview; fleet: readonly ListedFleetAgent[] }) {
  const now = useNow()
  const { total, current, behind, silent, never } = overview.fleet
  const { stacks, deliveries } = overview
  const missing = [
    silent > 0 ? `${silent} silent` : '',
    never > 0 ? `${never} never seen` : '',
    behind > 0 ? `${behind} behind` : '',
  ].filter(Boolean)
  const versions = [...Map.groupBy(fleet, ({ agent_version }) => agent_version ?? 'unknown')]
    .toSorted((a, b) => b[1].length - a[1].length)
    .slice(0, 3)
  return (
    <div className="kpi-in">
      <div>
        <div className="big">
          <b>{formatCount(current)}</b>
          <span>
            of {formatCount(total)} {total === 1 ? 'cluster' : 'clusters'} current
          </span>
        </div>
        <div className="sub f12">
          {missing.length === 0 ? 'Every cluster reported in time.' : `${missing.join(', ')}; they never count as current.`}
          {silent > 0 && overview.oldest_seen_at !== null
            ? ` Oldest sighting ${formatSpan(now - Date.parse(overview.oldest_seen_at))}.`
            : ''}
        </div>
      </div>
      <div>
        <div className="l">Stacks healthy</div>
        <div className="v">
          {formatCount(stacks.healthy)} <small>of {formatCount(stacks.total)}</small>
        </div>
        <div className="f12 kpi-states">
          {stacks.degraded > 0 ? <StateText state="degraded">{stacks.degraded} degraded</StateText> : null}
          {stacks.failing > 0 ? <StateText state="failing">{stacks.failing} failing</StateText> : null}
          {stacks.unknown > 0 ? <StateText state="unknown">{stacks.unknown} unknown</StateText> : null}
          {stacks.degraded + stacks.failing + stacks.unknown === 0 ? <span className="sub">none degraded</span> : null}
        </div>
      </div>
      <div>
        <div className="l">Drifted stacks</div>
        <div className="v">
          {formatCount(stacks.drifted)} <small>of {formatCount(stacks.total)}</small>
        </div>
        <Link to="/drift" className="sub f12">
          fields and managers
        </Link>
      </div>
      <div>
        <div className="l">Webhook deliveries</div>
        <div className="v">
          {formatCount(deliveries.pending)} <small>pending</small>
        </div>
        <div className="f12">
          {deliveries.dead_24h > 0 ? (
            <StateText state="failing">{deliveries.dead_24h} given up today</StateText>
          ) : (
            <span className="sub">none given up today</span>
          )}
        </div>
      </div>
      <div>
        <div className="l">Agent versions</div>
        <div className="skew" aria-hidden="true">
          {versions.map(([version, list]) => (
            <i key={version} style={{ flex: list.length }} />
          ))}
        </div>
        <div className="f12 skewl">
          {versions.map(([version, list]) => (
            <span key={version}>
              <Name text={version} className="b" /> {list.length}
            </span>
          ))}
        </div>
      </div>
    </div>
  )
}

const groupings: readonly { id: Grouping; label: string }[] = [
  { id: 'env', label: 'by environment' },
  { id: 'region', label: 'by region' },
  { id: 'version', label: 'by version' },
  { id: 'state', label: 'by state' },
]
const legend: readonly State[] = ['current', 'behind', 'degraded', 'failing', 'stale', 'unknown']

function Clusters({ fleet }: { fleet: CallResult<'listFleet'> }) {
  const { by = 'env' } = route.useSearch()
  const navigate = useNavigate()
  const groups = useMemo(() => groupClusters(fleet.data ?? [], by as Grouping), [fleet.data, by])
  const states = useMemo(() => Map.groupBy(fleet.data ?? [], clusterState), [fleet.data])
  return (
    <section className="card heat">
      <header>
        <h2>Clusters</h2>
        <Tabs
          options={groupings}
          value={by as Grouping}
          label="Group clusters"
          onChange={(next) => void navigate({ to: '/', search: { by: next } })}
        />
        <span className="age push wide-only">arrow keys move, Enter opens</span>
        <DataAge query={fleet} />
      </header>
      <PanelBody query={fleet}>
        {() => (
          <>
            <div className="hg">
              {groups.map(({ name, clusters }) => (
                <div key={name} className="hg-row">
                  <div className="lab">
                    <Name text={name} className="b" />
                    <span>{clusters.length}</span>
                  </div>
                  <HeatStrip
                    label={name}
                    cells={clusters.map((agent) => {
                      const state = clusterState(agent)
                      return { id: agent.agent_id, name: agent.name, state, note: describeCluster(agent, state) }
                    })}
                    onOpen={(id) => void navigate({ to: '/clusters/$id', params: { id } })}
                  />
                </div>
              ))}
            </div>
            <footer className="legend">
              {legend
                .filter((state) => states.has(state))
                .map((state) => (
                  <span key={state}>
                    <svg className="cell" aria-hidden="true">
                      <use href={`#c-${state}`} />
                    </svg>
                    <b>{states.get(state)!.length}</b> {state === 'stale' ? 'silent' : state === 'unknown' ? 'never seen' : state}
                  </span>
                ))}
              <span className="ink-3 push wide-only">hue is the state, pattern repeats it</span>
            </footer>
          </>
        )}
      </PanelBody>
    </section>
  )
}
