// Rolls a stack back: the plan first, then the difference, then the action. The broker makes a new version with the earlier content.
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { formatSpan, useNow } from '../parts/age.tsx'
import { shellWord } from '../parts/command.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Glyph } from '../parts/icon.tsx'
import { unitState } from '../parts/states.ts'
import { useToast } from '../parts/toast.tsx'
import { DiffView } from './diff-view.tsx'
import { PlanView } from './plan-view.tsx'

interface RollbackProps {
  readonly stackId: string
  readonly stackName: string
  readonly units: readonly AgentStackStatus[]
  readonly onClose: () => void
}

export function Rollback({ stackId, stackName, units, onClose }: RollbackProps) {
  const now = useNow()
  const objects = useCall('listDeploymentObjects', { params: { id: stackId }, query: { content: false, limit: 50 } })
  const [chosen, setChosen] = useState('')
  const [reason, setReason] = useState('')
  const [holds, setHolds] = useState(true)
  const blocked = useReadonlyReason()
  const toast = useToast()
  const head = objects.data?.[0]
  const earlier = (objects.data ?? []).slice(1).filter((object) => !object.is_deletion_marker)
  const goal = earlier.find(({ id }) => id === chosen) ?? earlier[0]
  const before = useCall('getDeploymentObject', { params: { id: head?.id ?? '' } }, { enabled: head !== undefined })
  const after = useCall('getDeploymentObject', { params: { id: goal?.id ?? '' } }, { enabled: goal !== undefined })
  const deed = useDeed('rollbackStack', (object) => {
    toast(`${stackName} ${object.sequence_id} has the content of ${goal?.sequence_id}`)
    onClose()
  })
  const silent = units.filter((unit) => unitState(unit) === 'stale').length
  return (
    <Confirm
      title={goal === undefined ? `Roll back ${stackName}` : `Roll back ${stackName} to ${goal.sequence_id}`}
      button={`Roll back ${units.length} ${units.length === 1 ? 'cluster' : 'clusters'}${holds ? ' and hold' : ''}`}
      command={`brokkr rollback ${shellWord(stackName)} --to ${goal?.sequence_id ?? '…'}${reason === '' ? '' : ` --reason ${shellWord(reason)}`}${holds ? '' : ' --no-hold'}`}
      isBusy={deed.isPending}
      error={deed.error ?? objects.error}
      blockedBecause={blocked ?? (goal === undefined ? 'there is no earlier version' : null)}
      onClose={onClose}
      onConfirm={() =>
        deed.mutate({
          params: { id: stackId },
          body: {
            deployment_object_id: goal!.id,
            expected_sequence_id: head!.sequence_id,
            hold: holds,
            ...(reason === '' ? {} : { reason }),
          },
        })
      }
    >
      {head === undefined || goal === undefined ? null : (
        <>
          <p className="ink-2">
            A new version <b className="mono">{head.sequence_id + 1}</b> with the content of <b className="mono">{goal.sequence_id}</b>. If
            someone submits another version meanwhile, nothing happens.
          </p>
          <label className="field">
            <span>To version</span>
            <select className="select" value={goal.id} onChange={(event) => setChosen(event.target.value)}>
              {earlier.map((object) => (
                <option key={object.id} value={object.id}>
                  {object.sequence_id}, submitted {formatSpan(now - Date.parse(object.submitted_at))} ago
                </option>
              ))}
            </select>
          </label>
          <ul className="plan">
            <li>
              <b>{units.length - silent}</b>
              <span className="grow">go back from {head.sequence_id}</span>
              <Glyph state="progressing" />
            </li>
            {silent === 0 ? null : (
              <li>
                <b>{silent}</b>
                <span className="grow">silent, when {silent === 1 ? 'it returns' : 'they return'}</span>
                <Glyph state="stale" />
              </li>
            )}
          </ul>
          {units.length === 0 ? null : <PlanView key={goal.id} stackId={stackId} change={{ sequenceId: goal.sequence_id }} />}
          {before.data === undefined || after.data === undefined ? null : (
            <DiffView before={before.data.yaml_content} after={after.data.yaml_content} />
          )}
          <label className="check">
            <input type="checkbox" checked={holds} onChange={(event) => setHolds(event.target.checked)} />
            Hold afterwards: later submissions wait until it is released
          </label>
          <label className="field">
            <span>Reason, kept in the audit log</span>
            <input className="input" value={reason} onChange={(event) => setReason(event.target.value)} maxLength={1024} />
          </label>
        </>
      )}
    </Confirm>
  )
}
