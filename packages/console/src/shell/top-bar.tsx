// The top bar: the honest number, the feed light, the palette, the theme, the session.
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useFeed, useSession } from '../api/session.tsx'
import { useCall } from '../api/use-call.ts'
import { formatClock, formatSpan, useNow } from '../parts/age.tsx'
import { Icon } from '../parts/icon.tsx'
import { formatCount, Meter } from '../parts/meter.tsx'
import { toggleTheme, useTheme } from './theme.ts'

export function TopBar({ openPalette }: { openPalette: () => void }) {
  const theme = useTheme()
  return (
    <header className="top">
      <HonestNumber />
      <span className="sep" />
      <FeedLight />
      <button type="button" className="find" onClick={openPalette}>
        <Icon name="search" size="m" />
        <span className="find-text">Find or do anything</span>
        <span className="kbd">Ctrl K</span>
      </button>
      <button
        type="button"
        className="btn bare sm ic"
        aria-label={theme === 'dark' ? 'Light theme' : 'Dark theme'}
        title={theme === 'dark' ? 'Light theme' : 'Dark theme'}
        onClick={toggleTheme}
      >
        <Icon name={theme === 'dark' ? 'sun' : 'moon'} />
      </button>
      <SessionMenu />
    </header>
  )
}

/** Clusters that are current, of all; a silent one never counts. */
function HonestNumber() {
  const { data } = useCall('getOverview', {}, { everyMs: 10_000 })
  const now = useNow()
  if (data === undefined) return <span className="honest ink-3">…</span>
  const { total, current, behind, silent, never } = data.fleet
  return (
    <Link to="/" className="honest" title="clusters whose observed state equals the desired state">
      <Meter
        shares={[
          ['current', current],
          ['behind', behind],
          ['stale', silent],
          ['unknown', never],
        ]}
      />
      <span className="honest-text">
        <b>{formatCount(current)}</b> of {formatCount(total)} {total === 1 ? 'cluster' : 'clusters'} current
      </span>
      {silent > 0 && data.oldest_seen_at !== null ? (
        <span className="ink-3 honest-old">oldest {formatSpan(now - Date.parse(data.oldest_seen_at))}</span>
      ) : null}
    </Link>
  )
}

function FeedLight() {
  const { state, heardAtMs } = useFeed()
  const now = useNow()
  if (state === 'live') {
    return (
      <span className="feed" role="status" title="changes arrive as they are committed">
        <span className="lamp" />
        live
      </span>
    )
  }
  if (state === 'connecting' || heardAtMs === null)
    return (
      <span className="feed connecting" role="status">
        <span className="lamp" />
        connecting
      </span>
    )
  return (
    <span className="feed stale" role="status" title={`last heard ${formatClock(heardAtMs)}`}>
      <span className="lamp" />
      stale since {formatClock(heardAtMs)}, {formatSpan(now - heardAtMs)}
    </span>
  )
}

function SessionMenu() {
  const { session, signOut } = useSession()
  const [isOpen, setOpen] = useState(false)
  if (typeof session !== 'object') return null
  const role = session.isAdmin ? 'admin' : 'generator'
  return (
    <span className="menu-place">
      <button
        type="button"
        className="me"
        aria-label={`${role.slice(0, 2).toUpperCase()}, session`}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') setOpen(false)
        }}
      >
        {role.slice(0, 2).toUpperCase()}
      </button>
      {isOpen ? (
        <div className="menu">
          <div className="menu-note">
            Signed in as {role}
            {session.isReadonly ? ', read-only' : ''}
          </div>
          <Link to="/access" className="menu-item" onClick={() => setOpen(false)}>
            Keys and invites
          </Link>
          <button type="button" className="menu-item" onClick={() => void signOut()}>
            Sign out
          </button>
        </div>
      ) : null}
    </span>
  )
}
