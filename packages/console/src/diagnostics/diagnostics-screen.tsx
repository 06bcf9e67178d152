// Diagnostics: pods, events and log tails of one stack on one cluster, collected on request.
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useCall, useDeed } from '../api/use-call.ts'
import { Age, formatSpan, useNow } from '../parts/age.tsx'
import { Command, shellWord } from '../parts/command.tsx'
import { Empty } from '../parts/empty.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon, Pill, type State } from '../parts/icon.tsx'
import { Panel } from '../parts/panel.tsx'
import { plainText } from '../parts/text.tsx'

const route = getRouteApi('/diagnostics')

export function DiagnosticsScreen() {
  const { id } = route.useSearch()
  return (
    <>
      <div className="head">
        <h1>Diagnostics</h1>
        <span className="ink-3 head-note">Pods, events and log tails of one stack on one cluster</span>
      </div>
      <div className="split">
        <Request />
        {id === undefined ? (
          <section className="card">
            <Empty title="Nothing collected yet">
              Choose a stack and a cluster. The agent collects once and the result expires by itself.
            </Empty>
          </section>
        ) : (
          <Result key={id} id={id} />
        )}
      </div>
    </>
  )
}

function Request() {
  const search = route.useSearch()
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const stacks = useCall('listStacks', { query: { limit: 200, ...(text === '' ? {} : { search: text }) } }, { keepsPrevious: true })
  const stackId = search.stack ?? stacks.data?.[0]?.id ?? ''
  const status = useCall('getStackStatus', { params: { id: stackId } }, { enabled: stackId !== '' })
  const units = status.data?.agents ?? []
  const unit = units.find(({ agent_id }) => agent_id === search.cluster) ?? units[0]
  const objects = useCall(
    'listDeploymentObjects',
    { params: { id: stackId }, query: { content: false, limit: 1 } },
    { enabled: stackId !== '' },
  )
  const object = objects.data?.[0]
  const show = (change: Record<string, string>) => void navigate({ to: '/diagnostics', search: { ...search, ...change } })
  const create = useDeed('createDiagnosticRequest', (request) => show({ id: request.id }))
  const reason = unit === undefined ? 'no cluster receives this stack' : object === undefined ? 'the stack has no version yet' : null
  const stackName = stacks.data?.find(({ id }) => id === stackId)?.name ?? ''
  return (
    <section className="card">
      <header>
        <h2>Collect</h2>
      </header>
      <div className="pad">
        <label className="field">
          <span>Find a stack</span>
          <input
            className="input"
            data-search
            value={text}
            onChange={(event) => setText(event.target.value)}
            placeholder="part of its name"
          />
        </label>
        <label className="field">
          <span>Stack</span>
          <select className="select" value={stackId} onChange={(event) => show({ stack: event.target.value })}>
            {(stacks.data ?? []).map((stack) => (
              <option key={stack.id} value={stack.id}>
                {plainText(stack.name, 80)}
              </option>
            ))}
          </select>
        </label>
        <label className="field">
          <span>Cluster</span>
          <select className="select" value={unit?.agent_id ?? ''} onChange={(event) => show({ cluster: event.target.value })}>
            {units.map((one) => (
              <option key={one.agent_id} value={one.agent_id}>
                {plainText(one.agent_name, 80)}
              </option>
            ))}
          </select>
        </label>
        {create.error === null ? null : <ErrorCard error={create.error} />}
        <div className="row">
          <button
            type="button"
            className="btn go"
            disabled={reason !== null || create.isPending}
            title={reason ?? undefined}
            onClick={() => create.mutate({ params: { id: object!.id }, body: { agent_id: unit!.agent_id } })}
          >
            Collect
          </button>
          <span className="ink-3 f12">{reason ?? (unit?.stale === true ? 'the cluster is silent: the request waits' : '')}</span>
        </div>
        <Command text={`brokkr logs ${shellWord(`${stackName}@${unit?.agent_name ?? 'CLUSTER'}`)} --previous`} />
      </div>
    </section>
  )
}

const stateOf: Readonly<Record<string, State>> = {
  pending: 'wait',
  claimed: 'progressing',
  completed: 'current',
  expired: 'stale',
  failed: 'failing',
}

function Result({ id }: { id: string }) {
  const now = useNow()
  const read = useCall('getDiagnostic', { params: { id } }, { everyMs: 2_000 })
  return (
    <Panel title="Result" query={read}>
      {({ request, result }) => (
        <div className="pad">
          <div className="row">
            <Pill state={stateOf[request.status] ?? 'unknown'}>
              {request.status === 'pending' ? 'waits for the agent' : request.status}
            </Pill>
            <Age at={request.created_at} prefix="requested " suffix=" ago" />
            <span className="age push">
              {Date.parse(request.expires_at) > now ? `expires in ${formatSpan(Date.parse(request.expires_at) - now)}` : 'expired'}
            </span>
          </div>
          {result === null ? null : (
            <>
              <Part title="Pods" text={result.pod_statuses} />
              <Part title="Events" text={result.events} />
              {result.log_tails === null ? null : <Part title="Logs" text={result.log_tails} />}
              <Download text={JSON.stringify(result, null, 2)} name={`diagnostics-${id}.json`} />
            </>
          )}
        </div>
      )}
    </Panel>
  )
}

function Part({ title, text }: { title: string; text: string }) {
  return (
    <details open>
      <summary className="b">{title}</summary>
      <pre className="code-block" tabIndex={0} aria-label={title}>
        {pretty(text)}
      </pre>
    </details>
  )
}

/** JSON with line breaks; log tails keep their own lines. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
      .split('\\n')
      .map((line) => plainText(line, 20_000))
      .join('\n')
  } catch {
    return plainText(text, 65_536)
  }
}

function Download({ text, name }: { text: string; name: string }) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }))
    const link = document.createElement('a')
    link.href = url
    link.download = name
    link.click()
    URL.revokeObjectURL(url)
  }
  return (
    <button type="button" className="btn sm" onClick={save}>
      <Icon name="ext" size="m" />
      Download
    </button>
  )
}
