// Asks before a move on the board: the same dialog for drag and button, with the command that does the same.
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useDeed } from '../api/use-call.ts'
import { shellWord } from '../parts/command.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Glyph } from '../parts/icon.tsx'
import { plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'
import type { Move } from './moves.ts'

export function MoveDialog({ move, onClose }: { move: Move; onClose: () => void }) {
  return move.kind === 'approve' ? <ApproveDialog move={move} onClose={onClose} /> : <PromoteDialog move={move} onClose={onClose} />
}

function ApproveDialog({ move: { card }, onClose }: { move: Extract<Move, { kind: 'approve' }>; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const toast = useToast()
  const deed = useDeed('decidePromotion', ({ approvals, required }) => {
    toast(`${card.pipeline}: ${approvals} of ${required} approvals`)
    onClose()
  })
  const words = reason === '' ? '' : ` --reason ${shellWord(reason)}`
  return (
    <Confirm
      title={`Approve ${plainText(card.revision, 40)} for ${card.environment}`}
      button="Approve"
      command={`brokkr approve ${shellWord(`${card.pipeline}/${card.environment}`)}${words}`}
      isBusy={deed.isPending}
      error={deed.error}
      blockedBecause={useReadonlyReason()}
      onClose={onClose}
      onConfirm={() =>
        deed.mutate({
          params: { namespace: card.namespace, name: card.name },
          body: { decision: 'approve', key: card.key, ...(reason === '' ? {} : { message: reason }) },
        })
      }
    >
      <ul className="plan">
        {card.gates.map((gate) => (
          <li key={gate.title}>
            <b />
            <span className="grow">
              {plainText(gate.title, 80)} <span className="ink-3">{plainText(gate.note, 200)}</span>
            </span>
            <Glyph state={gate.state} />
          </li>
        ))}
      </ul>
      <label className="field">
        <span>Reason, kept with the decision</span>
        <input className="input" value={reason} onChange={(event) => setReason(event.target.value)} maxLength={4096} />
      </label>
    </Confirm>
  )
}

function PromoteDialog({ move: { lane, revision, to }, onClose }: { move: Extract<Move, { kind: 'promote' }>; onClose: () => void }) {
  const toast = useToast()
  const deed = useDeed('startRun', ({ number }) => {
    toast(`${lane.name}: run ${number} promotes ${plainText(revision, 40)} to ${to}`)
    onClose()
  })
  return (
    <Confirm
      title={`Promote ${plainText(revision, 40)} to ${to}`}
      button={`Promote to ${to}`}
      command={`brokkr promote ${shellWord(lane.name)} --to ${shellWord(to)} --revision ${shellWord(revision)}`}
      isBusy={deed.isPending}
      error={deed.error}
      blockedBecause={useReadonlyReason()}
      onClose={onClose}
      onConfirm={() =>
        deed.mutate({
          params: { namespace: lane.namespace, name: lane.name },
          body: { revision, environments: [to], kind: 'manual' },
        })
      }
    >
      <p className="ink-2">Starts a run for {to}. Approvals, windows and health checks of the pipeline apply.</p>
    </Confirm>
  )
}
