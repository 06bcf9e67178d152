// Access: admin keys, generators and their keys, and invites for clusters.
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { Tabs } from '../parts/tabs.tsx'
import { AdminKeys } from './admin-keys.tsx'
import { Generators } from './generators.tsx'
import { Invites } from './invites.tsx'

const route = getRouteApi('/access')
const tabs = [
  { id: 'keys', label: 'Admin keys' },
  { id: 'generators', label: 'Generators' },
  { id: 'invites', label: 'Invites' },
] as const

export function AccessScreen() {
  const { tab = 'keys' } = route.useSearch()
  const navigate = useNavigate()
  return (
    <>
      <div className="head">
        <h1>Access</h1>
        <span className="ink-3 head-note">Keys, their scope, expiry and last use</span>
        <div className="acts">
          <Tabs
            options={tabs}
            value={tab as 'keys'}
            label="Parts of access"
            onChange={(next) => void navigate({ to: '/access', search: { tab: next } })}
          />
        </div>
      </div>
      {tab === 'keys' ? <AdminKeys /> : null}
      {tab === 'generators' ? <Generators /> : null}
      {tab === 'invites' ? <Invites /> : null}
    </>
  )
}
