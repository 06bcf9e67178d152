// Labels of a cluster, its registrations, and approvals for removals that its guard holds.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Command, shellWord } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon } from '../parts/icon.tsx'
import { plainText } from '../parts/text.tsx'

export function ClusterSettings({ agent }: { agent: Agent }) {
  return (
    <div className="pad">
      <AgentLabels agent={agent} />
      <Registrations agent={agent} />
      <PruneApprovals agent={agent} />
    </div>
  )
}

function AgentLabels({ agent }: { agent: Agent }) {
  const labels = useCall('agentsListLabels', { params: { id: agent.id } })
  const [text, setText] = useState('')
  const add = useDeed('agentsAddLabel', () => setText(''))
  const remove = useDeed('agentsRemoveLabel')
  const blocked = useReadonlyReason()
  const error = add.error ?? remove.error
  return (
    <div className="pad-form">
      <form
        className="chips"
        onSubmit={(event) => {
          event.preventDefault()
          add.mutate({ params: { id: agent.id }, body: { agent_id: agent.id, label: text } })
        }}
      >
        <span className="ink-2">Labels</span>
        {(labels.data ?? []).map(({ id, label }) => (
          <span key={id} className="tag">
            {plainText(label, 100)}
            <button
              type="button"
              className="chip-x"
              aria-label={`Remove label ${plainText(label, 60)}`}
              disabled={blocked !== null}
              onClick={() => remove.mutate({ params: { id: agent.id, label } })}
            >
              <Icon name="x" size="s" />
            </button>
          </span>
        ))}
        <input
          className="input mono"
          aria-label="New label"
          placeholder="env:prod"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <button type="submit" className="btn sm" disabled={text === '' || blocked !== null} title={blocked ?? undefined}>
          Add label
        </button>
      </form>
      {error === null ? null : <ErrorCard error={error} />}
      {text === '' ? null : <Command text={`brokkr agents label ${shellWord(agent.name)} ${shellWord(text)}`} />}
    </div>
  )
}

function Registrations({ agent }: { agent: Agent }) {
  const registrations = useCall('listAgentRegistrations', { params: { id: agent.id }, query: { limit: 200 } })
  const generators = useCall('listPaks', {})
  const [chosen, setChosen] = useState('')
  const add = useDeed('registerAgent')
  const remove = useDeed('deregisterAgent')
  const blocked = useReadonlyReason()
  const nameOf = new Map((generators.data ?? []).map(({ id, name }) => [id as string, name]))
  const registered = new Set((registrations.data ?? []).map(({ generator_id }) => generator_id as string))
  const error = add.error ?? remove.error
  return (
    <div className="pad-form">
      <div className="chips">
        <span className="ink-2">Receives stacks of</span>
        {[...registered].map((id) => (
          <span key={id} className="tag">
            {plainText(nameOf.get(id) ?? id, 80)}
            <button
              type="button"
              className="chip-x"
              aria-label={`Deregister ${plainText(nameOf.get(id) ?? id, 60)}`}
              disabled={blocked !== null}
              onClick={() => remove.mutate({ params: { id }, body: { agent_id: agent.id } })}
            >
              <Icon name="x" size="s" />
            </button>
          </span>
        ))}
        <select className="select" aria-label="Generator" value={chosen} onChange={(event) => setChosen(event.target.value)}>
          <option value="">choose a generator</option>
          {(generators.data ?? [])
            .filter(({ id }) => !registered.has(id))
            .map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
        </select>
        <button
          type="button"
          className="btn sm"
          disabled={chosen === '' || blocked !== null}
          title={blocked ?? undefined}
          onClick={() => add.mutate({ params: { id: chosen }, body: { agent_id: agent.id } })}
        >
          Register
        </button>
      </div>
      {error === null ? null : <ErrorCard error={error} />}
    </div>
  )
}

function PruneApprovals({ agent }: { agent: Agent }) {
  const approvals = useCall('listPruneApprovals', { params: { id: agent.id } })
  const approve = useDeed('approvePrune')
  const [removals, setRemovals] = useState('1')
  const blocked = useReadonlyReason()
  const count = Number(removals)
  return (
    <div className="pad-form">
      <form
        className="chips"
        onSubmit={(event) => {
          event.preventDefault()
          approve.mutate({ params: { id: agent.id }, body: { removals: count } })
        }}
      >
        <label className="ink-2" htmlFor="removals">
          Approve stacks removed by the next snapshot
        </label>
        <input
          id="removals"
          className="input"
          type="number"
          min={1}
          value={removals}
          onChange={(event) => setRemovals(event.target.value)}
        />
        <button type="submit" className="btn sm" disabled={!(count >= 1) || blocked !== null} title={blocked ?? undefined}>
          Approve
        </button>
      </form>
      {approve.error === null ? null : <ErrorCard error={approve.error} />}
      {(approvals.data ?? []).map((approval) => (
        <p key={approval.id} className="ink-2 f12">
          {approval.removals === null ? `sequence ${approval.sequence_id}` : `${approval.removals} removals`} approved{' '}
          <Age at={approval.created_at} suffix=" ago" />, not used
        </p>
      ))}
    </div>
  )
}
