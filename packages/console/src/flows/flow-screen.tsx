// One flow: its graph, figures, what stops it, its orders, and the buttons. Orders go to the agent of its cluster as work orders.
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { type CallResult, useCall, useDeed } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Glyph, Icon, Pill, StateText } from '../parts/icon.tsx'
import { PanelBody } from '../parts/panel.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Name, plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'
import { FlowEditor } from './flow-editor.tsx'
import { FlowGraph } from './flow-graph.tsx'
import { toFlowGraph } from './flow-graph-model.ts'
import { FlowOrderDialog, type SteeredAction } from './flow-order-dialog.tsx'
import { describeFlow, flowState, formatCount, formatLag, formatRate } from './flow-words.ts'
import { readFlow } from './read-flow.ts'

const route = getRouteApi('/flows/$id')
type FlowDetail = NonNullable<CallResult<'getFlow'>['data']>
const tabs = [
  { id: 'graph', label: 'Graph' },
  { id: 'editor', label: 'Editor' },
] as const

export function FlowScreen() {
  const { id } = route.useParams()
  const { tab = 'graph' } = route.useSearch()
  const navigate = useNavigate()
  const [asked, setAsked] = useState<SteeredAction | null>(null)
  const query = useCall('getFlow', { params: { id } }, { everyMs: 2_000 })
  return (
    <>
      <div className="crumb">
        <Link to="/flows">Flows</Link>
        <Icon name="right" size="s" />
        <span>{query.data === undefined ? '' : plainText(query.data.name, 80)}</span>
      </div>
      <PanelBody query={query}>
        {(flow) => (
          <>
            <Head flow={flow} ask={setAsked} />
            <section className="card">
              <header className="flow-head">
                <Tabs
                  options={tabs}
                  value={tab as 'graph'}
                  label="Part of the flow"
                  onChange={(next) => void navigate({ to: '/flows/$id', params: { id }, search: next === 'graph' ? {} : { tab: next } })}
                />
                <span className="push f12 ink-2">
                  <Figures flow={flow} />
                </span>
              </header>
              <Definition flow={flow} isEditor={tab === 'editor'} />
            </section>
            <div className="cols with-panel">
              <Accounting flow={flow} />
              <Orders orders={flow.orders} />
            </div>
            {asked === null ? null : <FlowOrderDialog flow={flow} action={asked} onClose={() => setAsked(null)} />}
          </>
        )}
      </PanelBody>
    </>
  )
}

function Head({ flow, ask }: { flow: FlowDetail; ask: (action: SteeredAction) => void }) {
  const blocked = useReadonlyReason()
  const toast = useToast()
  const deed = useDeed('createFlowOrder', ({ action }) => toast(`${action} of ${flow.name} is ordered`))
  const isPaused = flow.report?.paused === true
  const onlyFlow = flow.kind === 'DataFlow' ? null : 'a DataFlowCron starts anew with each run'
  const order = (action: 'pause' | 'resume') => deed.mutate({ params: { id: flow.id }, body: { action } })
  return (
    <>
      <div className="head">
        <h1>
          <Name text={flow.name} />
        </h1>
        <Pill state={flowState(flow)}>{describeFlow(flow)}</Pill>
        <span className="ink-2 head-note">
          {plainText(flow.namespace, 63)} on{' '}
          <Link to="/clusters/$id" params={{ id: flow.agent_id }}>
            {plainText(flow.agent_name, 60)}
          </Link>
          , from{' '}
          <Link to="/stacks/$id" params={{ id: flow.stack_id }}>
            {plainText(flow.stack_name, 60)}
          </Link>
        </span>
        <div className="acts">
          <button
            type="button"
            className="btn"
            disabled={blocked !== null || deed.isPending}
            title={blocked ?? `brokkr flows ${isPaused ? 'resume' : 'pause'} ${flow.name}`}
            onClick={() => order(isPaused ? 'resume' : 'pause')}
          >
            <Icon name="pause" size="m" />
            {isPaused ? 'Resume' : 'Pause'}
          </button>
          {(['rewind', 'replay'] as const).map((action) => (
            <button
              key={action}
              type="button"
              className="btn"
              disabled={(blocked ?? onlyFlow) !== null}
              title={blocked ?? onlyFlow ?? undefined}
              onClick={() => ask(action)}
            >
              <Icon name="back" size="m" />
              {action === 'rewind' ? 'Rewind…' : 'Replay…'}
            </button>
          ))}
        </div>
      </div>
      {deed.error === null ? null : <ErrorCard error={deed.error} />}
      <Blocked flow={flow} ask={ask} />
    </>
  )
}

function Blocked({ flow, ask }: { flow: FlowDetail; ask: (action: SteeredAction) => void }) {
  const blocked = flow.report?.blocked
  if (blocked === undefined) return null
  const canSkip = blocked.position !== undefined && blocked.position !== ''
  return (
    <section className="card" aria-label="Blocked">
      <dl className="kv pad">
        <dt>what</dt>
        <dd>
          <StateText state="failing">the flow is blocked</StateText>
        </dd>
        <dt>where</dt>
        <dd>{plainText([blocked.stage, blocked.connector, blocked.position].filter(Boolean).join(', '), 300)}</dd>
        <dt>why</dt>
        <dd>{plainText([blocked.errorType, blocked.message].filter(Boolean).join(': '), 1000)}</dd>
        <dt>since</dt>
        <dd>{blocked.since === undefined ? 'unknown' : <Age at={blocked.since} suffix=" ago" />}</dd>
        <dt>safe</dt>
        <dd>the position is kept; nothing is lost</dd>
      </dl>
      {canSkip ? (
        <div className="pad">
          <button type="button" className="btn bad" onClick={() => ask('skip')}>
            Skip this message…
          </button>
        </div>
      ) : null}
    </section>
  )
}

function Figures({ flow: { report, reported_at } }: { flow: FlowDetail }) {
  return (
    <>
      {formatRate(report) ?? 'unknown'} processed, lag {formatLag(report) ?? 'unknown'}, {formatCount(report?.errors) ?? 'unknown'} dead
      letters, reported <Age at={reported_at} suffix={reported_at === null ? '' : ' ago'} />
    </>
  )
}

function Definition({ flow, isEditor }: { flow: FlowDetail; isEditor: boolean }) {
  const object = useCall('getDeploymentObject', { params: { id: flow.deployment_object_id } })
  return (
    <PanelBody query={object}>
      {({ yaml_content }) => {
        if (isEditor) return <FlowEditor initial={yaml_content} name={flow.name} />
        const graph = toFlowGraph(readFlow(yaml_content, flow.name).flow)
        return graph === null ? (
          <p className="quiet">The manifest of the stack does not contain this flow in a readable form.</p>
        ) : (
          <FlowGraph graph={graph} />
        )
      }}
    </PanelBody>
  )
}

/** Every message that was read ended once; a difference is said. */
function Accounting({ flow: { report, ...flow } }: { flow: FlowDetail }) {
  const parts = [
    ['read', report?.read],
    ['written', report?.written],
    ['dropped on purpose', report?.dropped],
    ['dead letters', report?.errors],
  ] as const
  return (
    <section className="card">
      <header>
        <h2>Accounting</h2>
        {report?.counters_since === undefined ? null : (
          <span className="ink-3 f12">
            since <Age at={report.counters_since} suffix=" ago" />
          </span>
        )}
      </header>
      <dl className="kv pad">
        {parts.map(([label, value]) => (
          <div key={label} className="row">
            <dt>{label}</dt>
            <dd className="b">{formatCount(value) ?? 'unknown'}</dd>
          </div>
        ))}
      </dl>
      {flow.message === null ? null : <p className="quiet">{plainText(flow.message, 500)}</p>}
    </section>
  )
}

function Orders({ orders }: { orders: FlowDetail['orders'] }) {
  return (
    <section className="card" aria-label="Orders">
      <header>
        <h2>Orders</h2>
      </header>
      {orders.length === 0 ? (
        <p className="quiet">No order was given yet.</p>
      ) : (
        <ul className="list">
          {orders.map((order) => (
            <li key={order.id}>
              <Glyph state={order.status === 'COMPLETED' ? 'current' : order.status === 'FAILED' ? 'failing' : 'progressing'} />
              <b className="b">{order.action}</b>
              <span className="grow cut ink-2">{plainText(order.message ?? order.status.toLowerCase().replace('_', ' '), 200)}</span>
              <Age at={order.created_at} />
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}
