// One stack: its state on every cluster, and on the chosen cluster its objects, events, logs, history and targets.
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { HeatStrip } from '../parts/heat-strip.tsx'
import { Glyph, Icon, Pill, StateText } from '../parts/icon.tsx'
import { Skeleton } from '../parts/panel.tsx'
import { describeUnit, unitState, worstOf } from '../parts/states.ts'
import { Tabs } from '../parts/tabs.tsx'
import { Name } from '../parts/text.tsx'
import { DeleteStack } from './delete-stack.tsx'
import { Desired } from './desired.tsx'
import { EventList } from './events.tsx'
import { History } from './history.tsx'
import { HoldButton, HoldCard, HoldStack, useHold } from './hold.tsx'
import { Logs } from './logs.tsx'
import { Rollback } from './rollback.tsx'
import { Targets } from './targets.tsx'
import { TreePanel } from './tree-panel.tsx'

const route = getRouteApi('/stacks/$id')
const tabs = [
  { id: 'tree', label: 'Tree' },
  { id: 'events', label: 'Events' },
  { id: 'logs', label: 'Logs' },
  { id: 'history', label: 'History' },
  { id: 'desired', label: 'Desired' },
  { id: 'targets', label: 'Targets' },
] as const
type Tab = (typeof tabs)[number]['id']

export function StackScreen() {
  const { id } = route.useParams()
  const search = route.useSearch()
  const navigate = useNavigate()
  const stack = useCall('getStack', { params: { id } })
  const status = useCall('getStackStatus', { params: { id } }, { everyMs: 15_000 })
  const [deed, setDeed] = useState<'rollback' | 'delete' | 'hold' | null>(null)
  const units = useMemo(() => status.data?.agents ?? [], [status.data])
  const cluster = units.find((unit) => unit.agent_id === search.cluster) ?? units[0]
  const open = (change: Partial<typeof search>) =>
    void navigate({ to: '/stacks/$id', params: { id }, search: { ...search, ...change }, replace: true })
  useClusterKeys(units, cluster, (agentId) => open({ cluster: agentId }))
  const blocked = useReadonlyReason()
  const { hold } = useHold(id)
  const isHeld = hold !== null && hold !== undefined
  const tab = (search.tab ?? 'tree') as Tab
  if (stack.data === undefined)
    return stack.error === null ? <Skeleton rows={8} /> : <ErrorCard error={stack.error} retry={() => void stack.refetch()} />
  const { name } = stack.data
  const current = units.filter((unit) => unitState(unit) === 'current').length
  const cannotRollBack = blocked ?? ((status.data?.desired_sequence_id ?? 0) < 2 ? 'there is no earlier version' : null)
  return (
    <>
      <div className="crumb">
        <Link to="/stacks">Stacks</Link>
        <Icon name="right" size="s" />
        <Name text={name} />
      </div>
      <div className="head">
        <h1 className="cut">
          <Name text={name} />
        </h1>
        <StackPill units={units} />
        <span className="ink-2 head-note">
          <b className="b ink">{current}</b> of {units.length} at{' '}
          <span className="mono">{status.data?.desired_sequence_id ?? 'no version'}</span>
          <span className="dot">·</span>drift <b className="b">{stack.data.drift}</b>
        </span>
        <div className="acts wide">
          <button type="button" className="btn" onClick={() => setDeed('delete')} disabled={blocked !== null} title={blocked ?? undefined}>
            <Icon name="trash" size="m" />
            Delete
          </button>
          <HoldButton isHeld={isHeld} blocked={blocked} open={() => setDeed('hold')} />
          <button
            type="button"
            className="btn go"
            disabled={cannotRollBack !== null}
            title={cannotRollBack ?? undefined}
            onClick={() => setDeed('rollback')}
          >
            <Icon name="back" size="m" />
            Roll back
          </button>
        </div>
      </div>
      {status.failureReason === null ? null : <ErrorCard error={status.failureReason} retry={() => void status.refetch()} />}
      <HoldCard stackId={id} stackName={name} />
      {units.length === 0 ? null : (
        <section className="card cs" aria-label="Clusters of this stack">
          <div className="sw">
            <label className="f11 ink-3" htmlFor="cluster">
              Cluster
            </label>
            <span className="row">
              {cluster === undefined ? null : <Glyph state={unitState(cluster)} />}
              <select
                id="cluster"
                className="select mono"
                value={cluster?.agent_id}
                onChange={(event) => open({ cluster: event.target.value })}
              >
                {units.map((unit) => (
                  <option key={unit.agent_id} value={unit.agent_id}>
                    {unit.agent_name}
                  </option>
                ))}
              </select>
            </span>
          </div>
          <div className="grow">
            <HeatStrip
              label={`${units.length} clusters`}
              selected={cluster?.agent_id}
              cells={units.map((unit) => ({ id: unit.agent_id, name: unit.agent_name, state: unitState(unit), note: describeUnit(unit) }))}
              onOpen={(agentId) => open({ cluster: agentId })}
            />
          </div>
          {cluster === undefined ? null : <ClusterLine unit={cluster} />}
        </section>
      )}
      <section className="card lined">
        <header>
          <Tabs options={tabs} value={tab} label="Parts of the stack" onChange={(next) => open({ tab: next })} />
          {cluster === undefined ? null : (
            <span className="age push">
              <Name text={cluster.agent_name} />
              {cluster.received_at === null ? ', no report yet' : <Age at={cluster.received_at} prefix=", seen " suffix=" ago" />}
            </span>
          )}
        </header>
        {tab === 'tree' ? (
          <TreePanel stackId={id} stackName={name} cluster={cluster} selected={search.node} select={(node) => open({ node: node ?? '' })} />
        ) : null}
        {tab === 'events' ? <EventList stackId={id} units={units} /> : null}
        {tab === 'logs' ? <Logs stackId={id} units={units} /> : null}
        {tab === 'history' ? <History stackId={id} from={search.from} to={search.to} open={open} /> : null}
        {tab === 'desired' ? <Desired stackId={id} stackName={name} /> : null}
        {tab === 'targets' ? <Targets stack={stack.data} units={units} /> : null}
      </section>
      <div className="deed-bar">
        <HoldButton isHeld={isHeld} blocked={blocked} open={() => setDeed('hold')} />
        <button
          type="button"
          className="btn go"
          disabled={cannotRollBack !== null}
          title={cannotRollBack ?? undefined}
          onClick={() => setDeed('rollback')}
        >
          <Icon name="back" size="m" />
          Roll back
        </button>
      </div>
      {deed === 'rollback' ? <Rollback stackId={id} stackName={name} units={units} onClose={() => setDeed(null)} /> : null}
      {deed === 'hold' ? <HoldStack stack={stack.data} onClose={() => setDeed(null)} /> : null}
      {deed === 'delete' ? <DeleteStack stackId={id} stackName={name} units={units} onClose={() => setDeed(null)} /> : null}
    </>
  )
}

function StackPill({ units }: { units: readonly AgentStackStatus[] }) {
  if (units.length === 0) return <Pill state="wait">no cluster</Pill>
  const states = units.map(unitState)
  const worst = worstOf(states)
  const count = states.filter((state) => state === worst).length
  if (worst === 'current') return <StateText state="current">current</StateText>
  const word = worst === 'stale' ? 'silent' : worst === 'wait' ? 'waiting' : worst
  return (
    <Pill state={worst}>
      {word} on {count} of {units.length}
    </Pill>
  )
}

function ClusterLine({ unit }: { unit: AgentStackStatus }) {
  const state = unitState(unit)
  return (
    <div className="col f12 cluster-line">
      <StateText state={state}>
        <Name text={describeUnit(unit)} />
      </StateText>
      <Link to="/clusters/$id" params={{ id: unit.agent_id }} className="link">
        Open cluster <Icon name="arrow" size="s" />
      </Link>
    </div>
  )
}

/** [ and ] change the cluster. */
function useClusterKeys(units: readonly AgentStackStatus[], cluster: AgentStackStatus | undefined, open: (id: string) => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (
        (event.key !== '[' && event.key !== ']') ||
        (event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName))
      )
        return
      const at = units.findIndex((unit) => unit.agent_id === cluster?.agent_id)
      const next = units[(at + (event.key === ']' ? 1 : -1) + units.length) % units.length]
      if (next !== undefined) open(next.agent_id)
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  })
}
