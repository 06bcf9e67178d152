// Deletes a stack: says what agents will remove, asks for the name.
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import { useNavigate } from '@tanstack/react-router'
import { useDeed } from '../api/use-call.ts'
import { shellWord } from '../parts/command.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Glyph } from '../parts/icon.tsx'
import { unitState } from '../parts/states.ts'
import { useToast } from '../parts/toast.tsx'
import { PlanView } from './plan-view.tsx'

interface DeleteStackProps {
  readonly stackId: string
  readonly stackName: string
  readonly units: readonly AgentStackStatus[]
  readonly onClose: () => void
}

export function DeleteStack({ stackId, stackName, units, onClose }: DeleteStackProps) {
  const navigate = useNavigate()
  const toast = useToast()
  const undelete = useDeed('undeleteStack', () => toast(`${stackName} is restored`))
  const deed = useDeed('deleteStack', () => {
    toast(`${stackName} is deleted; agents remove its objects`, {
      label: 'Undelete',
      run: () => undelete.mutateAsync({ params: { id: stackId } }),
    })
    onClose()
    void navigate({ to: '/stacks' })
  })
  const silent = units.filter((unit) => unitState(unit) === 'stale').length
  return (
    <Confirm
      title={`Delete ${stackName}`}
      button={units.length === 0 ? 'Delete the stack' : `Delete from ${units.length} ${units.length === 1 ? 'cluster' : 'clusters'}`}
      command={`brokkr stacks delete ${shellWord(stackName)}`}
      typedName={stackName}
      isRemoval
      isBusy={deed.isPending}
      error={deed.error}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: stackId } })}
    >
      <ul className="plan">
        <li>
          <b>{units.length - silent}</b>
          <span className="grow">remove all objects that this stack deployed, within their prune guard</span>
          <Glyph state="failing" />
        </li>
        {silent === 0 ? null : (
          <li>
            <b>{silent}</b>
            <span className="grow">silent: the objects stay until {silent === 1 ? 'it returns' : 'they return'}</span>
            <Glyph state="stale" />
          </li>
        )}
      </ul>
      {units.length === 0 ? null : <PlanView stackId={stackId} change="removal" />}
    </Confirm>
  )
}
