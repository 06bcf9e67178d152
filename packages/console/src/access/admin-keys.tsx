// Admin keys: create with scope and expiry, rotate, revoke.
import type { AdminPak, Verb } from '@brokkr/contract/auth/admin-pak.ts'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useCall, useDeed } from '../api/use-call.ts'
import { Age, useNow } from '../parts/age.tsx'
import { Command, shellWord } from '../parts/command.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon, Pill } from '../parts/icon.tsx'
import { Panel } from '../parts/panel.tsx'
import { SecretOnce } from '../parts/secret-once.tsx'
import { Name } from '../parts/text.tsx'

const unusedMs = 90 * 24 * 60 * 60 * 1000

export function AdminKeys() {
  const paks = useCall('listAdminPaks', {})
  const now = useNow()
  const blocked = useReadonlyReason()
  const [isCreating, setCreating] = useState(false)
  const [deed, setDeed] = useState<{ is: 'rotate' | 'revoke'; pak: AdminPak } | null>(null)
  return (
    <>
      <Panel
        title="Admin keys"
        count={paks.data?.length}
        query={paks}
        tools={
          <button
            type="button"
            className="btn sm push"
            disabled={blocked !== null}
            title={blocked ?? undefined}
            onClick={() => setCreating(true)}
          >
            <Icon name="plus" size="m" />
            New key
          </button>
        }
      >
        {(rows) => (
          <div className="table-wrap" tabIndex={0}>
            <table className="table">
              <thead>
                <tr>
                  <th>Name</th>
                  <th>Starts with</th>
                  <th>Scope</th>
                  <th>Expires</th>
                  <th className="num">Last used</th>
                  <th className="num">Created</th>
                  <th>
                    <span className="sr-only">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map((pak) => {
                  const isUnused = now - Date.parse(pak.last_used_at ?? pak.created_at) > unusedMs
                  return (
                    <tr key={pak.id}>
                      <td>
                        <Name text={pak.name} className="b" />
                      </td>
                      <td className="mono f12">{pak.short_token ?? 'hash only'}</td>
                      <td>{pak.readonly ? 'read-only' : (pak.scope?.join(', ') ?? 'everything')}</td>
                      <td>{pak.expires_at === null ? 'never' : new Date(pak.expires_at).toLocaleString()}</td>
                      <td className="num">
                        {pak.last_used_at === null ? 'never' : <Age at={pak.last_used_at} />}{' '}
                        {isUnused ? <Pill state="stale">unused 90 d</Pill> : null}
                      </td>
                      <td className="num">
                        <Age at={pak.created_at} />
                      </td>
                      <td className="num">
                        <button
                          type="button"
                          className="btn sm"
                          disabled={blocked !== null}
                          title={blocked ?? undefined}
                          onClick={() => setDeed({ is: 'rotate', pak })}
                        >
                          Rotate
                        </button>{' '}
                        <button
                          type="button"
                          className="btn sm bad"
                          disabled={blocked !== null}
                          title={blocked ?? undefined}
                          onClick={() => setDeed({ is: 'revoke', pak })}
                        >
                          Revoke
                        </button>
                      </td>
                    </tr>
                  )
                })}
              </tbody>
            </table>
          </div>
        )}
      </Panel>
      {isCreating ? <NewKey onClose={() => setCreating(false)} /> : null}
      {deed?.is === 'rotate' ? <Rotate pak={deed.pak} onClose={() => setDeed(null)} /> : null}
      {deed?.is === 'revoke' ? <Revoke pak={deed.pak} onClose={() => setDeed(null)} /> : null}
    </>
  )
}

const verbs: readonly Verb[] = ['read', 'deploy', 'operate', 'approve', 'notify', 'admin']

function NewKey({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [isReadonly, setReadonly] = useState(false)
  const [scope, setScope] = useState<readonly Verb[]>([])
  const [days, setDays] = useState('90')
  const create = useDeed('createAdminPak')
  const submit = () => {
    const expires_at = days === '' ? null : new Date(Date.now() + Number(days) * 24 * 60 * 60 * 1000).toISOString()
    create.mutate({ body: { name, readonly: isReadonly, scope: scope.length === 0 ? null : [...scope], expires_at } })
  }
  if (create.data !== undefined)
    return (
      <Dialog title={`Key ${create.data.name}`} onClose={onClose}>
        <div className="pad">
          <SecretOnce value={create.data.pak} what="key" />
        </div>
      </Dialog>
    )
  return (
    <Dialog title="New admin key" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          submit()
        }}
      >
        <div className="pad">
          <label className="field">
            <span>Name</span>
            <input className="input" value={name} onChange={(event) => setName(event.target.value)} required />
          </label>
          <label className="field">
            <span>Valid for days; empty for ever</span>
            <input className="input" type="number" min={1} value={days} onChange={(event) => setDays(event.target.value)} />
          </label>
          <fieldset className="choices">
            <legend>Scope; none chosen means everything</legend>
            {verbs.map((verb) => (
              <label key={verb} className="check">
                <input
                  type="checkbox"
                  checked={scope.includes(verb)}
                  onChange={({ target }) => setScope((all) => (target.checked ? [...all, verb] : all.filter((one) => one !== verb)))}
                />
                {verb}
              </label>
            ))}
          </fieldset>
          <label className="check">
            <input type="checkbox" checked={isReadonly} onChange={(event) => setReadonly(event.target.checked)} />
            Read-only
          </label>
          {create.error === null ? null : <ErrorCard error={create.error} />}
          <Command text={`brokkr access create ${shellWord(name === '' ? 'NAME' : name)}`} />
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
            Create key
          </button>
        </footer>
      </form>
    </Dialog>
  )
}

function Rotate({ pak, onClose }: { pak: AdminPak; onClose: () => void }) {
  const deed = useDeed('rotateAdminPak')
  if (deed.data !== undefined)
    return (
      <Dialog title={`New key ${pak.name}`} onClose={onClose}>
        <div className="pad">
          <SecretOnce value={deed.data.pak} what="key" />
        </div>
      </Dialog>
    )
  return (
    <Confirm
      title={`Rotate ${pak.name}`}
      button="Rotate"
      command={`brokkr access rotate ${shellWord(pak.name)}`}
      isBusy={deed.isPending}
      error={deed.error}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: pak.id } })}
    >
      <p className="ink-2">
        The old key, its sessions and its streams end at once. If you are signed in with it, sign in again with the new one.
      </p>
    </Confirm>
  )
}

function Revoke({ pak, onClose }: { pak: AdminPak; onClose: () => void }) {
  const deed = useDeed('revokeAdminPak', onClose)
  return (
    <Confirm
      title={`Revoke ${pak.name}`}
      button="Revoke the key"
      command={`brokkr access revoke ${shellWord(pak.name)}`}
      typedName={pak.name}
      isRemoval
      isBusy={deed.isPending}
      error={deed.error}
      onClose={onClose}
      onConfirm={() => deed.mutate({ params: { id: pak.id } })}
    >
      <p className="ink-2">The key, its sessions and its streams end at once. The last admin key cannot be revoked.</p>
    </Confirm>
  )
}
