// Holds a stack at its version, or releases it: who, why and what waits stand before the button.
import type { Stack } from '@brokkr/contract/stacks/stack.ts'
import { useState } from 'react'
import { CallError } from '../api/call.ts'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { shellWord } from '../parts/command.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon, Pill } from '../parts/icon.tsx'
import { plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'

/** The hold of a stack; null if there is none, undefined while it is not known. */
export function useHold(stackId: string) {
  const read = useCall('getHold', { params: { id: stackId } }, { everyMs: 15_000 })
  const isFree = read.error instanceof CallError && read.error.code === 'hold_not_found'
  return { hold: isFree ? null : read.data, failure: isFree ? null : read.failureReason }
}

export function HoldCard({ stackId, stackName }: { stackId: string; stackName: string }) {
  const { hold, failure } = useHold(stackId)
  const [isReleasing, setReleasing] = useState(false)
  const blocked = useReadonlyReason()
  if (failure !== null && !(failure instanceof CallError && failure.code === 'hold_not_found')) return <ErrorCard error={failure} />
  if (hold === null || hold === undefined) return null
  return (
    <section className="card hold-card" aria-label="Hold">
      <Pill state="held">held at {hold.sequence_id}</Pill>
      <span className="grow ink-2">
        {plainText(hold.by.name ?? hold.by.kind, 80)}: “{plainText(hold.reason, 300)}”, <Age at={hold.created_at} suffix=" ago" />
        {hold.waiting.length === 0 ? '; nothing waits behind it' : `; ${hold.waiting.slice(0, 8).join(', ')} wait behind it`}
      </span>
      <button type="button" className="btn" disabled={blocked !== null} title={blocked ?? undefined} onClick={() => setReleasing(true)}>
        Release
      </button>
      {isReleasing ? <Release stackId={stackId} stackName={stackName} waiting={hold.waiting} onClose={() => setReleasing(false)} /> : null}
    </section>
  )
}

interface DeedProps {
  readonly stackId: string
  readonly stackName: string
  readonly onClose: () => void
}

function Release({ stackId, stackName, waiting, onClose }: DeedProps & { waiting: readonly number[] }) {
  const toast = useToast()
  const deed = useDeed('releaseStack', () => {
    toast(`${stackName} is released`)
    onClose()
  })
  const [newest] = waiting
  return (
    <Confirm
      title={`Release ${stackName}`}
      button={newest === undefined ? 'Release' : `Release and deliver ${newest}`}
      command={`brokkr release ${shellWord(stackName)}`}
      isBusy={deed.isPending}
      error={deed.error}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: stackId } })}
    >
      <p className="ink-2">
        {newest === undefined
          ? 'Nothing waits behind the hold. Later submissions are delivered again.'
          : `Clusters get version ${newest}; ${waiting.length} ${waiting.length === 1 ? 'version waits' : 'versions wait'} behind the hold.`}
      </p>
    </Confirm>
  )
}

export function HoldStack({ stack, onClose }: { stack: Stack; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const toast = useToast()
  const deed = useDeed('holdStack', ({ sequence_id }) => {
    toast(`${stack.name} is held at ${sequence_id}`)
    onClose()
  })
  return (
    <Confirm
      title={`Hold ${stack.name}`}
      button="Hold"
      command={`brokkr hold ${shellWord(stack.name)} --reason ${shellWord(reason === '' ? 'REASON' : reason)}`}
      isBusy={deed.isPending}
      error={deed.error}
      blockedBecause={reason === '' ? 'a reason is needed; others will read it' : null}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: stack.id }, body: { reason } })}
    >
      <p className="ink-2">Clusters keep the present version. Submitting goes on; later versions wait until the hold is released.</p>
      <label className="field">
        <span>Reason</span>
        <input className="input" value={reason} onChange={(event) => setReason(event.target.value)} maxLength={1000} />
      </label>
    </Confirm>
  )
}

/** The button that opens it, with why it cannot. */
export function HoldButton({ isHeld, blocked, open }: { isHeld: boolean; blocked: string | null; open: () => void }) {
  const reason = blocked ?? (isHeld ? 'the stack is held already; release it first' : null)
  return (
    <button type="button" className="btn" disabled={reason !== null} title={reason ?? undefined} onClick={open}>
      <Icon name="pause" size="m" />
      Hold
    </button>
  )
}
