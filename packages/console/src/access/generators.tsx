// Generators: who submits stacks. Create, rotate the key, deactivate, delete.
import type { Generator } from '@brokkr/contract/generators/generator.ts'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Age } from '../parts/age.tsx'
import { Command, shellWord } from '../parts/command.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Empty } from '../parts/empty.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon, StateText } from '../parts/icon.tsx'
import { Panel } from '../parts/panel.tsx'
import { SecretOnce } from '../parts/secret-once.tsx'
import { Name } from '../parts/text.tsx'

export function Generators() {
  const generators = useCall('listGenerators', { query: { limit: 500 } })
  const blocked = useReadonlyReason()
  const [isCreating, setCreating] = useState(false)
  const [deed, setDeed] = useState<{ is: 'rotate' | 'delete'; generator: Generator } | null>(null)
  const update = useDeed('updateGenerator')
  return (
    <>
      <Panel
        title="Generators"
        count={generators.data?.length}
        query={generators}
        tools={
          <button
            type="button"
            className="btn sm push"
            disabled={blocked !== null}
            title={blocked ?? undefined}
            onClick={() => setCreating(true)}
          >
            <Icon name="plus" size="m" />
            New generator
          </button>
        }
      >
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No generator yet" command="brokkr generators create shop">
              A generator submits stacks; usually it is a CI system or a team.
            </Empty>
          ) : (
            <div className="table-wrap" tabIndex={0}>
              {update.error === null ? null : <ErrorCard error={update.error} />}
              <table className="table">
                <thead>
                  <tr>
                    <th>Name</th>
                    <th>Description</th>
                    <th>State</th>
                    <th className="num">Last active</th>
                    <th>
                      <span className="sr-only">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((generator) => (
                    <tr key={generator.id}>
                      <td>
                        <Name text={generator.name} className="b" />
                      </td>
                      <td>
                        <Name text={generator.description ?? ''} className="ink-2" />
                      </td>
                      <td>
                        <StateText state={generator.is_active ? 'current' : 'held'}>
                          {generator.is_active ? 'active' : 'inactive'}
                        </StateText>
                      </td>
                      <td className="num">{generator.last_active_at === null ? 'never' : <Age at={generator.last_active_at} />}</td>
                      <td className="num">
                        <button
                          type="button"
                          className="btn sm"
                          disabled={blocked !== null}
                          title={blocked ?? undefined}
                          onClick={() => setDeed({ is: 'rotate', generator })}
                        >
                          Rotate key
                        </button>{' '}
                        <button
                          type="button"
                          className="btn sm"
                          disabled={blocked !== null || update.isPending}
                          title={blocked ?? undefined}
                          onClick={() => update.mutate({ params: { id: generator.id }, body: { is_active: !generator.is_active } })}
                        >
                          {generator.is_active ? 'Deactivate' : 'Activate'}
                        </button>{' '}
                        <button
                          type="button"
                          className="btn sm bad"
                          disabled={blocked !== null}
                          title={blocked ?? undefined}
                          onClick={() => setDeed({ is: 'delete', generator })}
                        >
                          Delete
                        </button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Panel>
      {isCreating ? <NewGenerator onClose={() => setCreating(false)} /> : null}
      {deed?.is === 'rotate' ? <RotateGenerator generator={deed.generator} onClose={() => setDeed(null)} /> : null}
      {deed?.is === 'delete' ? <DeleteGenerator generator={deed.generator} onClose={() => setDeed(null)} /> : null}
    </>
  )
}

function NewGenerator({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [description, setDescription] = useState('')
  const create = useDeed('createGenerator')
  return (
    <Dialog title={create.data === undefined ? 'New generator' : `Key of ${create.data.generator.name}`} onClose={onClose}>
      {create.data === undefined ? (
        <form
          onSubmit={(event) => {
            event.preventDefault()
            create.mutate({ body: { name, description: description === '' ? null : description } })
          }}
        >
          <div className="pad">
            <label className="field">
              <span>Name</span>
              <input className="input mono" value={name} onChange={(event) => setName(event.target.value)} required />
            </label>
            <label className="field">
              <span>Description</span>
              <input className="input" value={description} onChange={(event) => setDescription(event.target.value)} />
            </label>
            {create.error === null ? null : <ErrorCard error={create.error} />}
            <Command text={`brokkr generators create ${shellWord(name === '' ? 'NAME' : name)}`} />
          </div>
          <footer className="dialog-foot">
            <span className="grow" />
            <button type="button" className="btn" onClick={onClose}>
              Cancel
            </button>
            <button
              type="submit"
              className="btn go"
              disabled={name === '' || create.isPending}
              title={name === '' ? 'a name is needed' : undefined}
            >
              Create
            </button>
          </footer>
        </form>
      ) : (
        <div className="pad">
          <SecretOnce value={create.data.pak} what="key" />
        </div>
      )}
    </Dialog>
  )
}

function RotateGenerator({ generator, onClose }: { generator: Generator; onClose: () => void }) {
  const deed = useDeed('rotateGeneratorPak')
  if (deed.data !== undefined)
    return (
      <Dialog title={`New key of ${generator.name}`} onClose={onClose}>
        <div className="pad">
          <SecretOnce value={deed.data.pak} what="key" />
        </div>
      </Dialog>
    )
  return (
    <Confirm
      title={`Rotate the key of ${generator.name}`}
      button="Rotate"
      command={`brokkr generators rotate ${shellWord(generator.name)}`}
      isBusy={deed.isPending}
      error={deed.error}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: generator.id } })}
    >
      <p className="ink-2">The old key stops working at once.</p>
    </Confirm>
  )
}

function DeleteGenerator({ generator, onClose }: { generator: Generator; onClose: () => void }) {
  const deed = useDeed('deleteGenerator', onClose)
  const stacks = useCall('listStacks', { query: { pak_id: generator.id, limit: 1000 } })
  return (
    <Confirm
      title={`Delete ${generator.name}`}
      button={`Delete ${stacks.data === undefined ? 'the generator' : `${stacks.data.length} stacks with it`}`}
      command={`brokkr generators delete ${shellWord(generator.name)}`}
      typedName={generator.name}
      isRemoval
      isBusy={deed.isPending}
      error={deed.error}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: generator.id } })}
    >
      <p className="ink-2">
        The generator is deleted with {stacks.data === undefined ? 'all its stacks' : `its ${stacks.data.length} stacks`}; agents remove
        what these deployed.
      </p>
    </Confirm>
  )
}
