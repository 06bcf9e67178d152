// Webhooks: subscriptions, their deliveries with attempts and answers, test and replay.
import type { Webhook, WebhookDelivery } from '@brokkr/contract/webhooks/subscription.ts'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { useCall, usePages } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Empty } from '../parts/empty.tsx'
import { Icon, Pill, type State, StateText } from '../parts/icon.tsx'
import { More } from '../parts/more.tsx'
import { Panel, PanelBody } from '../parts/panel.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Name, plainText } from '../parts/text.tsx'
import { DeliveryPanel } from './delivery-panel.tsx'
import { NewWebhook } from './new-webhook.tsx'
import { WebhookDeeds } from './webhook-deeds.tsx'

const route = getRouteApi('/webhooks')

export function WebhooksScreen() {
  const { id } = route.useSearch()
  const hooks = useCall('listWebhooks', { query: { limit: 200 } })
  const [isCreating, setCreating] = useState(false)
  const chosen = hooks.data?.find((hook) => hook.id === id) ?? hooks.data?.[0]
  return (
    <>
      <div className="head">
        <h1>Webhooks</h1>
        <span className="ink-3 head-note">Events as signed requests to other systems</span>
        <div className="acts">
          <button type="button" className="btn go" onClick={() => setCreating(true)}>
            <Icon name="plus" size="m" />
            New webhook
          </button>
        </div>
      </div>
      <div className="split">
        <Panel title="Subscriptions" count={hooks.data?.length} query={hooks}>
          {(list) =>
            list.length === 0 ? (
              <Empty title="No webhook yet" command="brokkr webhooks create ci --url https://ci.example.com/hook --event 'deployment.*'">
                A webhook tells another system what happened, with retries and a signature.
              </Empty>
            ) : (
              <ul className="pick-list">
                {list.map((hook) => (
                  <li key={hook.id}>
                    <Link to="/webhooks" search={{ id: hook.id }} className={hook.id === chosen?.id ? 'on' : ''}>
                      <div className="col grow">
                        <Name text={hook.name} className="b" />
                        <span className="ink-3 f12 cut">{plainText(hook.event_types.join(', '), 120)}</span>
                      </div>
                      {hook.enabled ? null : <Pill state="held">paused</Pill>}
                    </Link>
                  </li>
                ))}
              </ul>
            )
          }
        </Panel>
        {chosen === undefined ? null : <Deliveries key={chosen.id} hook={chosen} />}
      </div>
      {isCreating ? <NewWebhook onClose={() => setCreating(false)} /> : null}
    </>
  )
}

const statuses = [
  { id: '', label: 'All' },
  { id: 'dead', label: 'Given up' },
  { id: 'failed', label: 'Failed, retried' },
  { id: 'pending', label: 'Pending' },
  { id: 'success', label: 'Delivered' },
] as const
const stateOf: Readonly<Record<WebhookDelivery['status'], State>> = {
  success: 'current',
  dead: 'failing',
  failed: 'degraded',
  pending: 'wait',
  acquired: 'progressing',
}
const wordOf: Readonly<Record<WebhookDelivery['status'], string>> = {
  success: 'delivered',
  dead: 'given up',
  failed: 'retried later',
  pending: 'pending',
  acquired: 'sending',
}

function Deliveries({ hook }: { hook: Webhook }) {
  const { status = '', delivery } = route.useSearch()
  const navigate = useNavigate()
  const show = (change: { status?: string; delivery?: string }) =>
    void navigate({
      to: '/webhooks',
      search: {
        id: hook.id,
        ...(change.status ? { status: change.status } : {}),
        ...(change.delivery ? { delivery: change.delivery } : {}),
      },
    })
  const pages = usePages('listDeliveries', { params: { id: hook.id }, query: { limit: 50, ...(status === '' ? {} : { status }) } })
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.rows) ?? [], [pages.data])
  const chosen = rows.find(({ id }) => id === delivery)
  return (
    <section className="card lined">
      <header>
        <h2 className="cut">
          <Name text={hook.name} />
        </h2>
        <Tabs options={statuses} value={status as ''} label="Which deliveries" onChange={(next) => show({ status: next })} />
      </header>
      <WebhookDeeds hook={hook} />
      {chosen === undefined ? null : <DeliveryPanel delivery={chosen} close={() => show({ status })} />}
      <PanelBody query={{ ...pages, refetch: () => pages.refetch() }}>
        {() =>
          rows.length === 0 ? (
            <Empty title={status === '' ? 'No delivery yet' : 'No such delivery'}>Deliveries are kept for seven days.</Empty>
          ) : (
            <div className="table-wrap" tabIndex={0}>
              <table className="table">
                <thead>
                  <tr>
                    <th>Event</th>
                    <th>State</th>
                    <th className="num">Attempts</th>
                    <th className="num">Answer</th>
                    <th>Error</th>
                    <th className="num">Next try</th>
                    <th className="num">Created</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((row) => (
                    <tr key={row.id} className={row.id === delivery ? 'on' : ''}>
                      <td>
                        <button type="button" className="link-row b" onClick={() => show({ status, delivery: row.id })}>
                          {plainText(row.event_type, 60)}
                        </button>
                      </td>
                      <td>
                        <StateText state={stateOf[row.status]}>{wordOf[row.status]}</StateText>
                      </td>
                      <td className="num">{row.attempts}</td>
                      <td className="num mono">{row.last_status_code ?? ''}</td>
                      <td>
                        <Name text={row.last_error ?? ''} className="ink-2" />
                      </td>
                      <td className="num">{row.next_retry_at === null ? '' : new Date(row.next_retry_at).toLocaleTimeString()}</td>
                      <td className="num">
                        <Age at={row.created_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <More hasMore={pages.hasNextPage} isLoading={pages.isFetchingNextPage} load={() => void pages.fetchNextPage()} />
            </div>
          )
        }
      </PanelBody>
    </section>
  )
}
