// One cluster: its connection, the stacks it receives, its events, labels and keys.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon, Pill, StateText } from '../parts/icon.tsx'
import { Skeleton } from '../parts/panel.tsx'
import { clusterState, describeCluster } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.tsx'
import { Name, plainText } from '../parts/text.tsx'
import { RemoveCluster, RotateKey, SetStatus } from './cluster-deeds.tsx'
import { ClusterEvents, ClusterStacks } from './cluster-lists.tsx'
import { ClusterSettings } from './cluster-settings.tsx'

const route = getRouteApi('/clusters/$id')
const tabs = [
  { id: 'stacks', label: 'Stacks' },
  { id: 'events', label: 'Events' },
  { id: 'settings', label: 'Labels and guard' },
] as const

export function ClusterScreen() {
  const { id } = route.useParams()
  const { tab = 'stacks' } = route.useSearch()
  const navigate = useNavigate()
  const agent = useCall('getAgent', { params: { id } }, { everyMs: 15_000 })
  const status = useCall('getAgentFleetStatus', { params: { id } }, { everyMs: 15_000 })
  const [deed, setDeed] = useState<'rotate' | 'remove' | 'status' | null>(null)
  const blocked = useReadonlyReason()
  if (agent.data === undefined)
    return agent.error === null ? <Skeleton rows={8} /> : <ErrorCard error={agent.error} retry={() => void agent.refetch()} />
  const { name, connection_state, last_seen_at, status: active } = agent.data
  const record = status.data?.record
  const state = record === undefined ? 'unknown' : clusterState({ ...record, connection_state })
  const isSilent = state === 'stale'
  const isPaused = active !== 'ACTIVE'
  return (
    <>
      <div className="crumb">
        <Link to="/">Fleet</Link>
        <Icon name="right" size="s" />
        <Name text={name} />
      </div>
      <div className="head">
        <h1 className="cut">
          <Name text={name} />
        </h1>
        {record === undefined ? null : state === 'current' ? (
          <StateText state="current">current</StateText>
        ) : (
          <Pill state={state}>{describeCluster({ ...record, connection_state }, state)}</Pill>
        )}
        {isPaused ? <Pill state="held">paused</Pill> : null}
        <span className="ink-2 head-note">
          {last_seen_at === null ? 'never seen' : <Age at={last_seen_at} prefix="seen " suffix=" ago" />}
          <span className="dot">·</span>agent <span className="mono">{agent.data.agent_version ?? 'unknown'}</span>
        </span>
        <div className="acts wide">
          <button type="button" className="btn" disabled={blocked !== null} title={blocked ?? undefined} onClick={() => setDeed('status')}>
            <Icon name="pause" size="m" />
            {isPaused ? 'Resume' : 'Pause'}
          </button>
          <button type="button" className="btn" disabled={blocked !== null} title={blocked ?? undefined} onClick={() => setDeed('rotate')}>
            <Icon name="access" size="m" />
            Rotate key
          </button>
          <button
            type="button"
            className="btn bad"
            disabled={blocked !== null}
            title={blocked ?? undefined}
            onClick={() => setDeed('remove')}
          >
            <Icon name="trash" size="m" />
            Remove
          </button>
        </div>
      </div>
      {agent.failureReason === null ? null : <ErrorCard error={agent.failureReason} retry={() => void agent.refetch()} />}
      <div className={isSilent ? 'outdated' : ''}>
        <Facts agent={agent.data} pending={record?.pending_object_count} orders={record?.claimed_work_orders} />
        <section className="card lined">
          <header>
            <Tabs
              options={tabs}
              value={tab as (typeof tabs)[number]['id']}
              label="Parts of the cluster"
              onChange={(next) => void navigate({ to: '/clusters/$id', params: { id }, search: { tab: next }, replace: true })}
            />
          </header>
          {tab === 'stacks' ? <ClusterStacks agentId={id} /> : null}
          {tab === 'events' ? <ClusterEvents agentId={id} /> : null}
          {tab === 'settings' ? <ClusterSettings agent={agent.data} /> : null}
        </section>
      </div>
      {deed === 'rotate' ? <RotateKey agent={agent.data} onClose={() => setDeed(null)} /> : null}
      {deed === 'remove' ? <RemoveCluster agent={agent.data} onClose={() => setDeed(null)} /> : null}
      {deed === 'status' ? <SetStatus agent={agent.data} onClose={() => setDeed(null)} /> : null}
    </>
  )
}

function Facts({ agent, pending, orders }: { agent: Agent; pending: number | undefined; orders: number | undefined }) {
  const facts = Object.entries(agent.facts ?? {}).filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value))
  return (
    <section className="card pad facts" aria-label="Facts">
      <dl className="kv kv-wide">
        <dt>Cluster</dt>
        <dd>
          <Name text={agent.cluster_name} />
        </dd>
        <dt>Connection</dt>
        <dd>
          <StateText state={agent.connection_state === 'connected' ? 'current' : agent.connection_state === 'never' ? 'unknown' : 'stale'}>
            {agent.connection_state === 'disconnected' ? 'silent' : agent.connection_state === 'never' ? 'never seen' : 'connected'}
          </StateText>
        </dd>
        <dt>Kubernetes API</dt>
        <dd>
          {agent.k8s_reachable === null ? (
            'not reported'
          ) : agent.k8s_reachable ? (
            <StateText state="current">reachable{agent.k8s_api_latency_ms === null ? '' : `, ${agent.k8s_api_latency_ms} ms`}</StateText>
          ) : (
            <StateText state="failing">not reachable</StateText>
          )}
        </dd>
        <dt>Pending</dt>
        <dd>
          {pending ?? '…'} objects, {orders ?? '…'} claimed work orders
        </dd>
        {facts.slice(0, 8).map(([key, value]) => (
          <FactRow key={key} name={key} value={String(value)} />
        ))}
      </dl>
    </section>
  )
}

const FactRow = ({ name, value }: { name: string; value: string }) => (
  <>
    <dt>{plainText(name.replaceAll('_', ' '), 40)}</dt>
    <dd className="mono f12">{plainText(value, 200)}</dd>
  </>
)
