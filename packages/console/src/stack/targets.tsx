// Which clusters receive the stack and why; labels of the stack; how drift is treated.
import type { AgentStackStatus, Stack } from '@brokkr/contract/stacks/stack.ts'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Command, shellWord } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon, StateText } from '../parts/icon.tsx'
import { describeUnit, unitState } from '../parts/states.ts'
import { Name, plainText } from '../parts/text.tsx'

export function Targets({ stack, units }: { stack: Stack; units: readonly AgentStackStatus[] }) {
  const remove = useDeed('removeTarget')
  const blocked = useReadonlyReason()
  return (
    <div className="pad">
      <Labels stack={stack} />
      <DriftMode stack={stack} />
      <AddTarget stack={stack} units={units} />
      {remove.error === null ? null : <ErrorCard error={remove.error} />}
      <div className="table-wrap" tabIndex={0}>
        <table className="table">
          <thead>
            <tr>
              <th>Cluster</th>
              <th>Why</th>
              <th>State</th>
              <th className="num">At</th>
              <th className="num">Seen</th>
              <th>
                <span className="sr-only">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {units.map((unit) => (
              <tr key={unit.agent_id}>
                <td>
                  <Link to="/clusters/$id" params={{ id: unit.agent_id }}>
                    <Name text={unit.agent_name} className="b" />
                  </Link>
                </td>
                <td className="ink-2">{plainText(unit.reasons.join(', '), 200)}</td>
                <td>
                  <StateText state={unitState(unit)}>{plainText(describeUnit(unit), 120)}</StateText>
                </td>
                <td className="num mono">{unit.sequence_id ?? ''}</td>
                <td className="num">{unit.received_at === null ? '' : <Age at={unit.received_at} />}</td>
                <td className="num">
                  {unit.reasons.includes('explicit') ? (
                    <button
                      type="button"
                      className="btn sm"
                      disabled={blocked !== null || remove.isPending}
                      title={blocked ?? `brokkr stacks untarget ${stack.name} --agent ${unit.agent_name}`}
                      onClick={() => remove.mutate({ params: { id: unit.agent_id, stack_id: stack.id } })}
                    >
                      Remove target
                    </button>
                  ) : null}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  )
}

function Labels({ stack }: { stack: Stack }) {
  const labels = useCall('stacksListLabels', { params: { id: stack.id } })
  const add = useDeed('stacksAddLabel', () => setText(''))
  const remove = useDeed('stacksRemoveLabel')
  const [text, setText] = useState('')
  const blocked = useReadonlyReason()
  const error = add.error ?? remove.error
  return (
    <div className="pad-form">
      <form
        className="chips"
        onSubmit={(event) => {
          event.preventDefault()
          add.mutate({ params: { id: stack.id }, body: text })
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
              onClick={() => remove.mutate({ params: { id: stack.id, label } })}
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
      {text === '' ? null : <Command text={`brokkr stacks label ${shellWord(stack.name)} ${shellWord(text)}`} />}
    </div>
  )
}

const driftModes = { heal: 'revert foreign changes', report: 'report foreign changes', off: 'ignore foreign changes' } as const

function DriftMode({ stack }: { stack: Stack }) {
  const update = useDeed('updateStack')
  const blocked = useReadonlyReason()
  return (
    <div className="chips">
      <label className="ink-2" htmlFor="drift">
        Drift
      </label>
      <select
        id="drift"
        className="select"
        value={stack.drift}
        disabled={blocked !== null || update.isPending}
        title={blocked ?? undefined}
        onChange={(event) => update.mutate({ params: { id: stack.id }, body: { drift: event.target.value as Stack['drift'] } })}
      >
        {Object.entries(driftModes).map(([mode, words]) => (
          <option key={mode} value={mode}>
            {mode}: {words}
          </option>
        ))}
      </select>
      {update.error === null ? null : <ErrorCard error={update.error} />}
    </div>
  )
}

function AddTarget({ stack, units }: { stack: Stack; units: readonly AgentStackStatus[] }) {
  const fleet = useCall('listFleet', { query: { include: 'agent', limit: 1000 } })
  const add = useDeed('addTarget')
  const [chosen, setChosen] = useState('')
  const blocked = useReadonlyReason()
  const others = (fleet.data ?? []).filter(({ agent_id }) => !units.some((unit) => unit.agent_id === agent_id))
  if (others.length === 0) return null
  return (
    <div className="chips">
      <label className="ink-2" htmlFor="target">
        Target
      </label>
      <select id="target" className="select mono" value={chosen} onChange={(event) => setChosen(event.target.value)}>
        <option value="">choose a cluster</option>
        {others.map((agent) => (
          <option key={agent.agent_id} value={agent.agent_id}>
            {agent.name}
          </option>
        ))}
      </select>
      <button
        type="button"
        className="btn sm"
        disabled={chosen === '' || blocked !== null || add.isPending}
        title={blocked ?? undefined}
        onClick={() => add.mutate({ params: { id: chosen }, body: { agent_id: chosen, stack_id: stack.id } })}
      >
        Add target
      </button>
      {add.error === null ? null : <ErrorCard error={add.error} />}
    </div>
  )
}
